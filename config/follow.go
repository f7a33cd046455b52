package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// follow watches the directories in which a change can make the file another one.
func (w *watch) follow() error {
	want, err := placesOf(w.file)
	if err != nil {
		return err
	}
	var errs []error
	have := w.notify.WatchList()
	for _, dir := range want {
		if !slices.Contains(have, dir) {
			errs = append(errs, w.notify.Add(dir))
		}
	}
	for _, dir := range have {
		if !slices.Contains(want, dir) {
			_ = w.notify.Remove(dir) // it may be gone already
		}
	}
	return errors.Join(errs...)
}

// mostLinks is how many symbolic links a path may have, as in Linux.
const mostLinks = 40

// placesOf returns the directory of the file and those of all symbolic links on
// the way to it, by their real names. Where the way ends, the last directory that
// is there comes last: the rest will appear in it.
func placesOf(file string) ([]string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	dir, links := root, 0
	var places []string
	for rest := elements(path); len(rest) > 0; {
		next := filepath.Join(dir, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		switch {
		case err != nil || links > mostLinks:
			return append(places, dir), nil
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(next)
			if err != nil {
				return append(places, dir), nil //nolint:nilerr // it has just gone, and may come back here
			}
			places = append(places, dir)
			if filepath.IsAbs(target) {
				dir = root
			}
			rest = append(elements(target), rest...)
			links++
		case len(rest) == 0:
			return append(places, dir), nil
		default:
			dir = next
		}
	}
	return append(places, dir), nil
}

// elements returns the names in a path.
func elements(path string) []string {
	path = filepath.ToSlash(path[len(filepath.VolumeName(path)):])
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" })
}
