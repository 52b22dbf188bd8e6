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
	"context"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Everything stands for the discovery of all groups.
const Everything = "*"

// outage is what is wrong with the discovery of a group.
type outage struct {
	// err is the answer; nil if there is none.
	err *apierrors.StatusError
	// over ends when the outage does.
	over chan struct{}
}

// FailDiscovery has the discovery of a group fail, as that of an aggregated API server
// does while the server is down: the list of all groups then marks the group as stale.
// With Everything, that list fails too. Requests for objects are not affected.
func (s *Server) FailDiscovery(group string, err *apierrors.StatusError) {
	s.RestoreDiscovery(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outages[group] = &outage{err: err, over: make(chan struct{})}
}

// HangDiscovery has requests for the discovery of a group wait until they are canceled
// or discovery is restored. In a synctest bubble, do so only if nobody asks for it
// while holding a lock that others wait for.
func (s *Server) HangDiscovery(group string) {
	s.RestoreDiscovery(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outages[group] = &outage{over: make(chan struct{})}
}

// RestoreDiscovery ends what FailDiscovery and HangDiscovery did.
func (s *Server) RestoreDiscovery(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ended := s.outages[group]; ended != nil {
		close(ended.over)
		delete(s.outages, group)
	}
}

// awaitDiscovery waits while discovery hangs.
func (s *Server) awaitDiscovery(ctx context.Context, r *request) error {
	for isDiscovery(r.path) {
		s.mu.Lock()
		hanging := s.outageOf(r)
		s.mu.Unlock()
		if hanging == nil || hanging.err != nil {
			return nil
		}
		select {
		case <-hanging.over:
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the client compares it
		}
	}
	return nil
}

// outageOf returns what is wrong with the discovery that a request asks for.
func (s *Server) outageOf(r *request) *outage {
	if everything := s.outages[Everything]; everything != nil {
		return everything
	}
	parts := strings.Split(strings.TrimPrefix(r.path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 1:
		return s.outages[""]
	case parts[0] == "apis" && len(parts) > 1:
		return s.outages[parts[1]]
	}
	return nil
}

// discover answers a request for what the server serves.
func (s *Server) discover(r *request) *answer {
	if failing := s.outageOf(r); failing != nil && failing.err != nil {
		return failed(failing.err)
	}
	document := s.document(r)
	if document == nil {
		return failed(errNotServed)
	}
	made, err := encoded(http.StatusOK, document)
	if err != nil {
		return failed(err)
	}
	if _, aggregated := document.(*apidiscoveryv2.APIGroupDiscoveryList); aggregated {
		made.header.Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	}
	return made
}

// document returns what is at a path of the discovery; nil for nothing.
func (s *Server) document(r *request) any {
	parts := strings.Split(strings.TrimPrefix(r.path, "/"), "/")
	switch root, depth := parts[0], len(parts); {
	case root == "version":
		return map[string]string{"major": "1", "minor": "35", "gitVersion": "v1.35.4"}
	case root != "api" && root != "apis":
		return nil
	case depth == 1 && strings.Contains(r.accept, "v=v2;as=APIGroupDiscoveryList"):
		return s.aggregated(root == "api")
	case depth == 1 && root == "api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case depth == 1:
		return s.groupList()
	case root == "api":
		return s.resourceList("", parts[1])
	case depth == 2:
		return s.groupNamed(parts[1])
	}
	return s.resourceList(parts[1], parts[2])
}

// groupList describes all groups but the core group.
func (s *Server) groupList() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, group := range s.groups() {
		if group.name != "" {
			list.Groups = append(list.Groups, *group.legacy())
		}
	}
	return list
}

// groupNamed describes a group; nil if it is not served.
func (s *Server) groupNamed(name string) any {
	for _, group := range s.groups() {
		if group.name == name {
			described := group.legacy()
			described.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return described
		}
	}
	return nil
}

// group is a group with its versions, the preferred one first.
type group struct {
	name      string
	versions  []string
	resources []*resource
}

// groups returns the served groups by name.
func (s *Server) groups() []*group {
	var all []*group
	for _, served := range s.discovered() {
		if len(served.Versions) == 0 {
			continue
		}
		if len(all) == 0 || all[len(all)-1].name != served.Group {
			all = append(all, &group{name: served.Group})
		}
		last := all[len(all)-1]
		last.resources = append(last.resources, served)
		for _, version := range served.Versions {
			if !slices.Contains(last.versions, version) {
				last.versions = append(last.versions, version)
			}
		}
	}
	for _, each := range all {
		slices.SortStableFunc(each.versions, byPriority)
	}
	return all
}

func (g *group) legacy() *metav1.APIGroup {
	described := &metav1.APIGroup{Name: g.name}
	for _, version := range g.versions {
		described.Versions = append(described.Versions, metav1.GroupVersionForDiscovery{GroupVersion: g.name + "/" + version, Version: version})
	}
	described.PreferredVersion = described.Versions[0]
	return described
}
