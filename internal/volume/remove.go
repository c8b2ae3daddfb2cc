package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxOpen bounds how deep the walk goes, and so how many directories are open
// at a time: containers may have nested them without bound.
const maxOpen = 64

// remover deletes one tree.
type remover struct {
	ctx   context.Context
	open  openDir
	top   int // the tree's root
	moved int // names used for directories moved up to the root
}

// removeTree deletes the directory name in dir with all that is in it.
func removeTree(ctx context.Context, dir, name string, open openDir) error {
	path := filepath.Join(dir, name)
	parent, err := unix.Open(dir, openDirFlags, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(parent)
	top, err := open(parent, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR): // a link or file in the place of our directory
		return at(path, ignoreAbsent(unix.Unlinkat(parent, name, 0)))
	case err != nil:
		return at(path, err)
	}
	r := &remover{ctx: ctx, open: open, top: top}
	if err := r.empty(top, path, 1); err != nil {
		return err
	}
	return at(path, ignoreAbsent(unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)))
}

// empty deletes all that is in a directory, and closes it. path is for errors.
func (r *remover) empty(fd int, path string, depth int) error {
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		names, err := dir.Readdirnames(512)
		if errors.Is(err, io.EOF) {
			// Deleting while reading may have hidden names from this pass.
			if done, err := isEmpty(dir); done || err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := r.remove(fd, name, filepath.Join(path, name), depth); err != nil {
				return err
			}
		}
	}
}

// isEmpty goes back to a directory's beginning and reports whether nothing is
// in it.
func isEmpty(dir *os.File) (bool, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	_, err := dir.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	if err == nil {
		_, err = dir.Seek(0, io.SeekStart)
	}
	return false, err
}

func (r *remover) remove(parent int, name, path string, depth int) error {
	err := unix.Unlinkat(parent, name, 0)
	if !errors.Is(err, unix.EISDIR) {
		return at(path, ignoreAbsent(err))
	}
	if depth == maxOpen {
		return at(path, r.moveUp(parent, name))
	}
	fd, err := r.open(parent, name)
	if err != nil {
		return at(path, ignoreAbsent(err))
	}
	if err := r.empty(fd, path, depth+1); err != nil {
		return err
	}
	return at(path, ignoreAbsent(unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)))
}

// moveUp puts a directory into the root of the tree, which is read until it is
// empty. Names that an interrupted removal left are passed over.
func (r *remover) moveUp(parent int, name string) error {
	for {
		r.moved++
		err := unix.Renameat(parent, name, r.top, fmt.Sprintf(".moved-%d", r.moved))
		if !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
}

func ignoreAbsent(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func at(path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "remove", Path: path, Err: err}
}
