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

package apiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Stream is an open watch. Its events wait until they are delivered.
type Stream struct {
	// Request is the request that opened the watch.
	Request

	id       int
	server   *Server
	from     *request
	selected *selector
	body     *body
	waiting  []frame
	// prompt streams deliver every event at once.
	prompt bool
}

// frame is an event, or the end of a stream if it has no type.
type frame struct {
	event  watch.EventType
	object *revision
	// version is that of a bookmark.
	version int64
	// initial marks the bookmark after the initial events.
	initial bool
	// status is that of an error.
	status *metav1.Status
}

// watch carries out a watch request.
func (s *Server) watch(r *request) (*answer, error) {
	selected, err := selectorOf(r)
	if err != nil {
		return nil, err
	}
	asked, err := askedVersion(r)
	if err != nil {
		return nil, err
	}
	s.opened++
	opened := &Stream{Request: r.Request, id: s.opened, server: s, from: r, selected: selected, body: newBody(r.done)}
	if err := s.begin(opened, asked); err != nil {
		return nil, err
	}
	r.resource.streams = append(r.resource.streams, opened)
	s.streams = append(s.streams, opened)
	return &answer{code: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, stream: opened}, nil
}

// begin fills a stream with what has happened before it was opened.
func (s *Server) begin(opened *Stream, asked int64) error {
	r := opened.from
	initial, from := r.query.Get("sendInitialEvents") == "true", asked
	if initial || asked == 0 && r.query.Get("sendInitialEvents") == "" {
		objects, version, err := s.snapshot(r)
		if err != nil {
			return err
		}
		for _, object := range sorted(objects) {
			if opened.selected.matches(object) {
				opened.push(frame{event: watch.Added, object: object})
			}
		}
		if initial && opened.bookmarks() {
			opened.push(frame{event: watch.Bookmark, version: version, initial: true})
		}
		from = version
	}
	switch {
	case from > s.version:
		return tooLarge(from, s.version)
	case from == 0:
		from = s.version
	case from < s.compacted:
		opened.push(frame{event: watch.Error, status: expired(from, s.compacted)})
		opened.push(frame{})
		return nil
	}
	for _, changed := range r.resource.history {
		if changed.version > from {
			opened.show(changed)
		}
	}
	return nil
}

func expired(asked, oldest int64) *metav1.Status {
	return statusOf(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", asked, oldest)))
}

func (t *Stream) bookmarks() bool { return t.from.query.Get("allowWatchBookmarks") == "true" }

// show adds the event that a change is to this stream, if any.
func (t *Stream) show(changed change) {
	was := changed.before != nil && t.selected.matches(changed.before)
	is := !changed.gone && t.selected.matches(changed.after)
	switch {
	case is && was:
		t.push(frame{event: watch.Modified, object: changed.after})
	case is:
		t.push(frame{event: watch.Added, object: changed.after})
	case was && changed.gone:
		t.push(frame{event: watch.Deleted, object: changed.after})
	case was:
		// The object is there, but no longer selected.
		t.push(frame{event: watch.Deleted, object: changed.before.withVersion(changed.version)})
	}
}

func (t *Stream) push(pushed frame) {
	t.waiting = append(t.waiting, pushed)
	if t.prompt {
		t.deliver(len(t.waiting))
	}
}

// Waiting returns how many events have not been delivered.
func (t *Stream) Waiting() int {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	return len(t.waiting)
}

// Deliver delivers up to n events, in order.
func (t *Stream) Deliver(n int) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.deliver(n)
}

func (t *Stream) deliver(n int) {
	n = min(n, len(t.waiting))
	for _, next := range t.waiting[:n] {
		if next.event == "" {
			t.end(io.EOF)
			return
		}
		t.body.write(next.json(t.from))
	}
	t.waiting = t.waiting[n:]
}

// Bookmark adds a bookmark to the events that wait, if the client allows them.
func (t *Stream) Bookmark() {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	if t.bookmarks() {
		t.push(frame{event: watch.Bookmark, version: t.server.version})
	}
}

// Cut ends the stream, as a lost connection does. Events that wait are lost.
func (t *Stream) Cut() {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.end(io.ErrUnexpectedEOF)
}

// End ends the stream, as an API server does after a while. Events that wait are lost.
func (t *Stream) End() {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.end(io.EOF)
}

// Expire ends the stream with the error 410 Gone, as an API server does if it has lost
// the events that follow. Events that wait are lost.
func (t *Stream) Expire() {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.body.write(frame{event: watch.Error, status: expired(t.server.version, t.server.version)}.json(t.from))
	t.end(io.EOF)
}

// end closes the stream after what has been delivered.
func (t *Stream) end(reason error) {
	t.waiting = nil
	t.body.end(reason)
	t.server.drop(t)
}

// drop forgets a stream.
func (s *Server) drop(ended *Stream) {
	is := func(stream *Stream) bool { return stream == ended }
	s.streams = slices.DeleteFunc(s.streams, is)
	// The list may be in use by the loop that led here.
	ended.from.resource.streams = slices.DeleteFunc(slices.Clone(ended.from.resource.streams), is)
}

// endStreams ends the watches of a resource once what happened before is delivered.
func (r *resource) endStreams() {
	for _, stream := range r.streams {
		stream.push(frame{})
	}
}

// String describes the stream in one line.
func (t *Stream) String() string {
	return fmt.Sprintf("%s #%d, %d waiting", t.from, t.id, t.Waiting())
}

// Streams returns the open watches: by client, resource, namespace, selectors, and age.
func (s *Server) Streams() []*Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stream := range slices.Clone(s.streams) {
		if stream.body.isClosed() {
			s.drop(stream)
		}
	}
	open := slices.Clone(s.streams)
	slices.SortStableFunc(open, func(a, b *Stream) int {
		return cmp.Or(a.from.compare(b.from), cmp.Compare(a.id, b.id))
	})
	return open
}

// json returns an event as a client reads it.
func (f frame) json(r *request) []byte {
	var object []byte
	switch f.event {
	case watch.Bookmark:
		object = f.bookmark(r)
	case watch.Error:
		// A Status can always be encoded.
		object, _ = json.Marshal(f.status)
	default:
		object = f.object.json(r)
	}
	return slices.Concat([]byte(`{"type":"`+f.event+`","object":`), object, []byte("}\n"))
}

func (f frame) bookmark(r *request) []byte {
	kind, apiVersion, annotations := r.resource.Kind.Kind, r.apiVersion(), ""
	if r.partial() {
		kind, apiVersion = "PartialObjectMetadata", metav1.SchemeGroupVersion.String()
	}
	if f.initial {
		annotations = `,"annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}`
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"%s}}`, kind, apiVersion, f.version, annotations)
}
