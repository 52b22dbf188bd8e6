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
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// writeFile writes a file atomically, so that a reader never sees a partial file. It
// creates folders as needed.
func writeFile(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // has no effect after the rename
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Chmod(mode), temp.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}

// fileLock is held by one process at a time. It is released when the process ends.
type fileLock struct{ file *os.File }

// lockDir waits for the lock on a folder, which must exist.
func lockDir(ctx context.Context, path string) (*fileLock, error) {
	return lock(ctx, path, func() (*os.File, error) { return os.Open(path) })
}

// lockFile waits for the lock on a file, which is created if it does not exist.
func lockFile(ctx context.Context, path string) (*fileLock, error) {
	return lock(ctx, path, func() (*os.File, error) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	})
}

func lock(ctx context.Context, path string, open func() (*os.File, error)) (*fileLock, error) {
	for {
		file, err := open()
		if err != nil {
			return nil, fmt.Errorf("opening for a lock: %w", err)
		}
		if err := flock(ctx, file); err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		// The previous holder may have deleted the locked file.
		locked, err := file.Stat()
		if err == nil {
			if now, err := os.Stat(path); err == nil && os.SameFile(locked, now) {
				return &fileLock{file: file}, nil
			}
		}
		_ = file.Close()
	}
}

// flock polls instead of blocking, so that Ctrl-C works.
func flock(ctx context.Context, file *os.File) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (l *fileLock) release() { _ = l.file.Close() }
