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
	w.way = wayTo(w.path)
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
		errs = append(errs, w.notify.Add(dir))
		w.watched[dir] = info
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
// names, and the file. Where the way ends, what is missing comes last.
func wayTo(path string) (way []string) {
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
		if err != nil || links > mostLinks {
			return way
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			dir = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return way // it has just gone, and may come back here
		}
		if filepath.IsAbs(target) {
			dir = filepath.VolumeName(target) + string(filepath.Separator)
		}
		rest = append(elements(target), rest...)
		links++
	}
	return way
}

// elements returns the names in a path.
func elements(path string) []string {
	path = filepath.ToSlash(path[len(filepath.VolumeName(path)):])
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}
