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

import "time"

// snapshot is what was served from a moment on.
type snapshot struct {
	from   time.Time
	served []*resource
}

// publish has discovery show what is served now, after the lag.
func (s *Server) publish() {
	if s.lag == 0 {
		return
	}
	published := snapshot{from: s.now()}
	for _, each := range s.served() {
		copied := *each
		published.served = append(published.served, &copied)
	}
	s.published = append(s.published, published)
}

// discovered are the resources that discovery shows: those that were served some time
// ago.
func (s *Server) discovered() []*resource {
	if s.lag == 0 {
		return s.served()
	}
	for len(s.published) > 1 && !s.published[1].from.Add(s.lag).After(s.now()) {
		s.published = s.published[1:]
	}
	return s.published[0].served
}
