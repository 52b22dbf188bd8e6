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
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// byPriority orders versions of an API as API servers prefer them.
func byPriority(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) }

// singular is the singular of the plural of a resource.
func (r *resource) singular() string { return strings.ToLower(r.Kind.Kind) }

// verbs are what clients may do with a resource.
func (r *resource) verbs() metav1.Verbs {
	if r.Answer != nil {
		return metav1.Verbs{"create"}
	}
	return metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

var statusVerbs = metav1.Verbs{"get", "patch", "update"}

// resourceList describes the resources of a version of a group; nil if there is none.
func (s *Server) resourceList(group, version string) any {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: schema.GroupVersion{Group: group, Version: version}.String(),
	}
	for _, served := range s.discovered() {
		if served.Group != group || !served.serves(version) {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: served.Plural, SingularName: served.singular(), Namespaced: served.Namespaced, Kind: served.Kind.Kind, Verbs: served.verbs(),
		})
		if served.hasStatus(version) {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: served.Plural + "/status", Namespaced: served.Namespaced, Kind: served.Kind.Kind, Verbs: statusVerbs,
			})
		}
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	return list
}

// aggregated describes all groups, or the core group alone.
func (s *Server) aggregated(core bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscoveryv2.SchemeGroupVersion.String()},
	}
	for _, each := range s.groups() {
		if (each.name == "") != core {
			continue
		}
		described := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: each.name}}
		for _, version := range each.versions {
			described.Versions = append(described.Versions, s.describe(each, version))
		}
		list.Items = append(list.Items, described)
	}
	return list
}

// describe describes a version of a group.
func (s *Server) describe(of *group, version string) apidiscoveryv2.APIVersionDiscovery {
	described := apidiscoveryv2.APIVersionDiscovery{Version: version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	if s.outages[of.name] != nil {
		described.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
		return described
	}
	for _, served := range of.resources {
		if !slices.Contains(served.Versions, version) {
			continue
		}
		scope, kind := apidiscoveryv2.ScopeCluster, &metav1.GroupVersionKind{Group: of.name, Version: version, Kind: served.Kind.Kind}
		if served.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		resource := apidiscoveryv2.APIResourceDiscovery{
			Resource: served.Plural, ResponseKind: kind, Scope: scope, SingularResource: served.singular(), Verbs: served.verbs(),
		}
		if served.hasStatus(version) {
			resource.Subresources = []apidiscoveryv2.APISubresourceDiscovery{{Subresource: "status", ResponseKind: kind, Verbs: statusVerbs}}
		}
		described.Resources = append(described.Resources, resource)
	}
	return described
}
