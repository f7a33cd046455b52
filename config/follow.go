package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// follow watches the folders in which a change can make the file another one.
func (w *watch) follow() error {
	var must map[string]bool
	w.way, must = wayTo(w.path)
	var want []string
	var errs []error
	for _, place := range w.way {
		dir := filepath.Dir(place)
		if slices.Contains(want, dir) {
			continue
		}
		want = append(want, dir)
		info, err := os.Stat(dir)
		if err != nil {
			continue // it has just gone, which its own folder tells
		}
		if had := w.watched[dir]; had != nil && os.SameFile(had, info) && slices.Contains(w.notify.WatchList(), dir) {
			continue
		}
		_ = w.notify.Remove(dir) // another folder of this name
		if err := w.notify.Add(dir); err == nil {
			w.watched[dir] = info
		} else if must[dir] {
			errs = append(errs, err)
		}
	}
	for dir := range w.watched {
		if !slices.Contains(want, dir) {
			_ = w.notify.Remove(dir) // it may be gone already
			delete(w.watched, dir)
		}
	}
	return errors.Join(errs...)
}

// mostLinks is how many symbolic links a path may have, as in Linux.
const mostLinks = 40

// absolute returns a path that a change of the working folder does not change. It
// is not made shorter: what ".." is depends on where links lead.
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	dir, err := os.Getwd()
	return dir + string(filepath.Separator) + path, err
}

// wayTo returns all folders and symbolic links on the way to a file, by their real
// names, and the file. Where the way ends, what is missing comes last. In the
// folders of must there is a link or the end: what changes there is to be known at
// once. A folder further up may be one that can be passed but not be read; that it
// is replaced is seen when the file is looked at next.
func wayTo(path string) (way []string, must map[string]bool) {
	must = map[string]bool{}
	dir, links := filepath.VolumeName(path)+string(filepath.Separator), 0
	for rest := elements(path); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			dir = filepath.Dir(dir)
			continue
		}
		next := filepath.Join(dir, name)
		way = append(way, next)
		info, err := os.Lstat(next)
		if err != nil || links > mostLinks || len(rest) == 0 || info.Mode()&fs.ModeSymlink != 0 {
			must[dir] = true
		}
		if err != nil || links > mostLinks {
			return way, must
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			dir = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return way, must // it has just gone, and may come back here
		}
		if filepath.IsAbs(target) {
			dir = filepath.VolumeName(target) + string(filepath.Separator)
		}
		rest = append(elements(target), rest...)
		links++
	}
	return way, must
}

// elements returns the names in a path.
func elements(path string) []string {
	path = filepath.ToSlash(path[len(filepath.VolumeName(path)):])
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}
