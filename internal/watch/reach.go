package watch

import (
	"os"
	"path/filepath"
)

// reaching finds out what has to be watched so that every change of some files is told.
type reaching struct {
	touches map[string][]string // path of which a notification is of interest -> files
	dirs    []string            // to be watched, those of the first file first
	needs   map[string][]string // file -> its directories
	known   map[string]bool     // whether a path is a directory
	links   map[string][]string // directory -> the links among it and those above it
	wanted  map[string]bool
}

func newReaching() *reaching {
	return &reaching{
		touches: map[string][]string{}, needs: map[string][]string{}, known: map[string]bool{}, links: map[string][]string{}, wanted: map[string]bool{},
	}
}

// reach adds what leads to a file: each link of the chain, and the directory of each, or the nearest one that is there.
func (r *reaching) reach(path string) {
	for at, n := path, 0; n < maxLinks; n++ {
		dir := at
		for {
			r.touches[dir] = append(r.touches[dir], path)
			parent := filepath.Dir(dir)
			dir = parent
			if r.isDir(parent) || dir == filepath.Dir(dir) {
				break
			}
		}
		r.want(path, dir)
		r.touches[dir] = append(r.touches[dir], path) // the directory itself may go
		for _, link := range r.linksOf(dir) {         // or lead elsewhere
			r.want(path, filepath.Dir(link))
			r.touches[link] = append(r.touches[link], path)
		}
		target, err := os.Readlink(at)
		if err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		at = target
	}
}

// want notes that a directory has to be watched for a file.
func (r *reaching) want(path, dir string) {
	r.needs[path] = append(r.needs[path], dir)
	if !r.wanted[dir] {
		r.wanted[dir] = true
		r.dirs = append(r.dirs, dir)
	}
}

func (r *reaching) isDir(path string) bool {
	is, known := r.known[path]
	if !known {
		info, err := os.Stat(path)
		is = err == nil && info.IsDir()
		r.known[path] = is
	}
	return is
}

// linksOf lists the symbolic links among a directory and those above it.
func (r *reaching) linksOf(dir string) []string {
	if all, known := r.links[dir]; known {
		return all
	}
	var all []string
	if parent := filepath.Dir(dir); parent != dir {
		all = append(all, r.linksOf(parent)...)
		if info, err := os.Lstat(dir); err == nil && info.Mode()&os.ModeSymlink != 0 {
			all = append(all, dir)
		}
	}
	r.links[dir] = all
	return all
}
