package move

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// zipMagic is what an archive begins with.
const zipMagic = "PK\x03\x04"

// mainFiles are the files of an archive that have what is asked for, the first one before the
// others: chat programs send their exports so.
var mainFiles = []string{"conversations.json", "memory.jsonl", "memories.json", "projects.json"}

// Unzip makes an input of an archive that of what is in it: of its one main file, or, where there
// are Markdown files, of the archive as a folder. What is not read of it is counted by LeftOut. An
// input that is no archive stays as it is. The closer is nil where nothing was opened.
func (in *Input) Unzip() (io.Closer, error) {
	if in.Reader == nil || in.File == nil {
		return nil, nil
	}
	if head, _ := in.Reader.Peek(len(zipMagic)); string(head) != zipMagic {
		return nil, nil
	}
	archive, err := zip.NewReader(in.File, in.Size)
	if err != nil {
		return nil, fmt.Errorf("the archive cannot be read: %w", err)
	}
	main := mainFile(archive.File)
	if main == nil {
		if !slices.ContainsFunc(archive.File, func(f *zip.File) bool { return isPage(f.Name) }) {
			return nil, errors.New("the archive has no conversations.json, and no Markdown; unpack it, and name the file that is meant")
		}
		in.Reader, in.File, in.Size, in.Beside, in.Folder = nil, nil, 0, nil, archive
		return nil, nil
	}
	for _, f := range archive.File {
		if f != main && !f.FileInfo().IsDir() {
			in.unread++
		}
	}
	r, err := main.Open()
	if err != nil {
		return nil, fmt.Errorf("the archive cannot be read: %w", err)
	}
	in.Name, in.Reader, in.File, in.Size, in.Beside = main.Name, bufio.NewReaderSize(r, splitBuffer), nil, 0, nil
	return r, nil
}

// mainFile is the file of an archive that is meant, nil where that is not plain.
func mainFile(files []*zip.File) *zip.File {
	for _, name := range mainFiles {
		for _, f := range files {
			if strings.EqualFold(path.Base(f.Name), name) && f.Mode().IsRegular() {
				return f
			}
		}
	}
	if len(files) == 1 && files[0].Mode().IsRegular() && !isPage(files[0].Name) {
		return files[0]
	}
	return nil
}
