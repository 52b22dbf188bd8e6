/*
Copyright The Karmada Direct Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// file is a file in an archive.
type file struct {
	name string
	path string
	mode fs.FileMode
}

// writeTar and writeZip write archives whose bytes depend only on names, modes and
// content of the files, and on the given time.
func writeTar(path string, files []file, at time.Time) error {
	entries := []entry{}
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: f.name, mode: f.mode, content: content})
	}
	return create(path, func(out io.Writer) error { return writeEntries(out, entries, at) })
}

func writeZip(path string, files []file, at time.Time) error {
	return create(path, func(out io.Writer) error {
		archive := zip.NewWriter(out)
		for _, f := range files {
			content, err := os.ReadFile(f.path)
			if err != nil {
				return err
			}
			header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
			header.SetMode(f.mode)
			writer, err := archive.CreateHeader(header)
			if err != nil {
				return err
			}
			if _, err := writer.Write(content); err != nil {
				return err
			}
		}
		return archive.Close()
	})
}

type entry struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// writeEntries writes a compressed tar, sorted by name and without owners.
func writeEntries(out io.Writer, entries []entry, at time.Time) error {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(e.content)), ModTime: at, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(e.content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// readEntries reads the files of a compressed tar.
func readEntries(in io.Reader) ([]entry, error) {
	compressed, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	entries := []entry{}
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: header.Name, mode: header.FileInfo().Mode().Perm(), content: content})
	}
}

// create writes a file that everybody may read.
func create(path string, write func(io.Writer) error) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(out), out.Chmod(0o644), out.Close())
}
