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

package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// step is a request of the script.
type step struct {
	what   string
	method string
	path   string
	// body may name versions and identities that earlier answers had: $rv(name) and
	// $uid(name) are those of the object with the name.
	body string
	// as is the type of the body; empty for JSON.
	as     string
	accept string
	// until is the code to wait for; 0 to ask once.
	until int
	// contains is the text to wait for; empty to ask once.
	contains string
	// brief leaves out the content of objects, which defaults of built-in kinds differ in.
	brief bool
}

// transcript is what a server answers to the script, with names for what is different
// on every server.
type transcript struct {
	t      *testing.T
	client *http.Client
	host   string
	// versions and uids are those of the objects that answers had last.
	versions, uids map[string]string
	// names are the names of what is different on every server.
	names map[string]string
	text  strings.Builder
}

func newTranscript(t *testing.T, client *http.Client, host string) *transcript {
	t.Helper()
	return &transcript{
		t: t, client: client, host: strings.TrimSuffix(host, "/"),
		versions: map[string]string{}, uids: map[string]string{}, names: map[string]string{},
	}
}

// perform makes the requests, one after the other, and writes down the answers.
func (s *transcript) perform(steps []step) {
	s.t.Helper()
	for i := range steps {
		code, answer := s.ask(&steps[i])
		for tries := 0; steps[i].until != 0 && code != steps[i].until || !bytes.Contains(answer, []byte(steps[i].contains)); tries++ {
			if tries == 200 {
				s.t.Fatalf("%s: the code is still %d: %s", steps[i].what, code, answer)
			}
			<-time.After(50 * time.Millisecond)
			code, answer = s.ask(&steps[i])
		}
		fmt.Fprintf(&s.text, "%s: %s %s\n  %d %s\n", steps[i].what, steps[i].method, steps[i].path, code, s.describe(answer, steps[i].brief))
	}
}

func (s *transcript) ask(step *step) (int, []byte) {
	s.t.Helper()
	response := s.open(s.t.Context(), step)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, answer
}

func (s *transcript) open(ctx context.Context, step *step) *http.Response {
	s.t.Helper()
	body := s.substitute(step.body)
	request, err := http.NewRequestWithContext(ctx, step.method, s.host+s.substitute(step.path), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if request.Header.Set("Content-Type", step.as); step.as == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if request.Header.Set("Accept", step.accept); step.accept == "" {
		request.Header.Set("Accept", "application/json")
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.t.Fatalf("%s: %v", step.what, err)
	}
	return response
}

var reference = regexp.MustCompile(`\$(rv|uid)\(([^)]*)\)`)

// substitute replaces references to what answers had.
func (s *transcript) substitute(text string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		parts := reference.FindStringSubmatch(found)
		if parts[1] == "rv" {
			return s.versions[parts[2]]
		}
		return s.uids[parts[2]]
	})
}

// describe returns an answer with names for what is different on every server.
func (s *transcript) describe(answer []byte, brief bool) string {
	content := map[string]any{}
	if err := json.Unmarshal(answer, &content); err != nil {
		return strings.TrimSpace(string(answer))
	}
	s.remember(content)
	if items, ok := content["items"].([]any); ok {
		delete(content, "metadata")
		for _, item := range items {
			item, _ := item.(map[string]any)
			s.remember(item)
		}
	}
	if _, isStatus := content["reason"]; brief && !isStatus {
		for _, field := range []string{"spec", "status"} {
			delete(content, field)
		}
	}
	text := &bytes.Buffer{}
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s.rename(content)); err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(text.String())
}

// remember keeps the version and the identity of an object, and names them.
func (s *transcript) remember(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if version, ok := metadata["resourceVersion"].(string); ok {
		s.versions[name] = version
		s.name("version", version)
	}
	if uid, ok := metadata["uid"].(string); ok {
		s.uids[name] = uid
		s.name("uid", uid)
	}
}

// name names what is different on every server.
func (s *transcript) name(kind, value string) {
	if s.names[value] == "" {
		s.names[value] = fmt.Sprintf("<%s %d>", kind, len(s.names)+1)
	}
}

var (
	words     = regexp.MustCompile(`[0-9a-f-]{36}|\b[0-9]+\b`)
	generated = regexp.MustCompile(`\bmade-[a-z0-9]{5}\b`)
)

// rename names what is different on every server.
func (s *transcript) rename(value any) any {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "managedFields")
		for inner, content := range value {
			value[inner] = s.rename(content)
		}
	case []any:
		for i, content := range value {
			value[i] = s.rename(content)
		}
	case string:
		if _, err := time.Parse(time.RFC3339, value); err == nil {
			return "<time>"
		}
		value = generated.ReplaceAllString(value, "made-<suffix>")
		return words.ReplaceAllStringFunc(value, func(word string) string {
			if name := s.names[word]; name != "" {
				return name
			}
			return word
		})
	}
	return value
}

// watching is an open watch.
type watching struct {
	what   string
	events chan []byte
	stop   context.CancelFunc
}

// watch opens a watch.
func (s *transcript) watch(step step) *watching {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	step.method = http.MethodGet
	response := s.open(ctx, &step) //nolint:bodyclose // the goroutine below closes it
	opened := &watching{what: step.what, events: make(chan []byte, 1000), stop: stop}
	go func() {
		defer close(opened.events)
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			opened.events <- bytes.Clone(lines.Bytes())
		}
	}()
	s.t.Cleanup(stop)
	return opened
}

// collect writes down the events of a watch, up to the first that has a text.
func (s *transcript) collect(opened *watching, last string) {
	s.t.Helper()
	defer opened.stop()
	fmt.Fprintf(&s.text, "%s:\n", opened.what)
	for {
		select {
		case line, more := <-opened.events:
			if !more {
				s.text.WriteString("  end\n")
				return
			}
			event := map[string]any{}
			if err := json.Unmarshal(line, &event); err != nil {
				s.t.Fatal(err)
			}
			object, _ := json.Marshal(event["object"])
			fmt.Fprintf(&s.text, "  %s %s\n", event["type"], s.describe(object, false))
			if last != "" && bytes.Contains(line, []byte(last)) {
				return
			}
		case <-time.After(20 * time.Second):
			s.t.Fatalf("%s: no event has %s; so far:\n%s", opened.what, last, s.text.String())
		}
	}
}
