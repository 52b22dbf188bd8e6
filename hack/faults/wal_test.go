//go:build faults

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

package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const (
	// frameHeader is the size of the length before each record of etcd's log.
	frameHeader = 8
	// tornSize is the size of a record of which only a part is written: more than the
	// sectors of 512 bytes from which etcd recognizes that.
	tornSize = 4096
	// entryRecord is the type of records that contain writes.
	entryRecord = 2
)

// writeAheadLog is the newest segment of etcd's log while etcd is stopped.
type writeAheadLog struct {
	path    string
	content []byte
	// records are the offsets of the records; end is that of the next one.
	records []int
	end     int
}

func readLog(t *testing.T) *writeAheadLog {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(bed.Fleet.Dir, "etcd", "member", "wal", "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no log of etcd in %s: %v", bed.Fleet.Dir, err)
	}
	log := &writeAheadLog{path: slices.Max(segments)}
	if log.content, err = os.ReadFile(log.path); err != nil {
		t.Fatal(err)
	}
	for log.end+frameHeader <= len(log.content) {
		length := binary.LittleEndian.Uint64(log.content[log.end:])
		if length == 0 {
			return log
		}
		size, padding := int(length&(1<<56-1)), 0 //nolint:gosec // a segment has 64 MiB
		if length>>63 == 1 {
			padding = int(length >> 56 & 7) //nolint:gosec // three bits
		}
		log.records = append(log.records, log.end)
		log.end += frameHeader + size + padding
	}
	return log
}

// tears appends a record of which only a part was written before the power failed. Nobody
// was told that this write had succeeded. The rest of the record is zero or, if the file
// was to grow, missing.
func (l *writeAheadLog) tears(t *testing.T, written int, grows bool) {
	t.Helper()
	content := slices.Clone(l.content[:l.end])
	content = binary.LittleEndian.AppendUint64(content, tornSize)
	record := make([]byte, tornSize)
	// The type, the checksum and the length of the data, then the data.
	copy(record, []byte{0x08, entryRecord, 0x10, 0x01, 0x1a, 0xf0, 0x1f})
	for i := 7; i < written; i++ {
		record[i] = byte(i%255 + 1)
	}
	clear(record[written:])
	content = append(content, record...)
	if grows {
		content = content[:l.end+frameHeader+written]
	} else if len(content) < len(l.content) {
		content = append(content, make([]byte, len(l.content)-len(content))...)
	}
	l.save(t, content)
}

// loses cuts the log in the middle of its last write, as a disk does that has only
// claimed to have stored it.
func (l *writeAheadLog) loses(t *testing.T) {
	t.Helper()
	for _, at := range slices.Backward(l.records) {
		if l.content[at+frameHeader+1] == entryRecord {
			l.save(t, l.content[:at+frameHeader+20])
			return
		}
	}
	t.Fatalf("no write in %s", l.path)
}

func (l *writeAheadLog) save(t *testing.T, content []byte) {
	t.Helper()
	if err := os.WriteFile(l.path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// isRepaired returns an error unless etcd has found the torn record. It then keeps a copy
// of the segment.
func (l *writeAheadLog) isRepaired() error {
	if _, err := os.Stat(l.path + ".broken"); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("etcd has not repaired %s, so the test proves nothing", l.path)
	}
	return os.Remove(l.path + ".broken")
}
