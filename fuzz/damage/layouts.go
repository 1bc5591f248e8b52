package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// layoutBases are the databases that programs of earlier layouts have made, packed in a folder.
func layoutBases(ctx context.Context, in string, layouts ...int) (all []*base, err error) {
	for _, layout := range layouts {
		b := &base{name: fmt.Sprint("layout ", layout)}
		if b.files, err = unpacked(filepath.Join(in, fmt.Sprintf("layout%d.tar.zst", layout))); err == nil {
			err = b.remember(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		all = append(all, b)
	}
	return all, nil
}

// unpacked are the files of a packed folder.
func unpacked(name string) (all folder, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	all = folder{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if h.Typeflag != tar.TypeReg || strings.HasSuffix(name, "LOCK") {
			continue
		}
		if all[name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}
