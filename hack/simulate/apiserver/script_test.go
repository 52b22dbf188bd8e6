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
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	gadgets   = "/apis/example.org/v1/namespaces/shop/gadgets"
	gadgetsV2 = "/apis/example.org/v2/gadgets"
	crds      = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	maps      = "/api/v1/namespaces/shop/configmaps"
	deploys   = "/apis/apps/v1/namespaces/shop/deployments"
	propagate = "/apis/propagation.karmada-direct.io/v1alpha1/namespaces/shop/directpropagations"

	leases = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
	events = "/apis/events.k8s.io/v1/namespaces/shop/events"

	merge     = "application/merge-patch+json"
	jsonPatch = "application/json-patch+json"
	strategic = "application/strategic-merge-patch+json"
)

func gadget(metadata, rest string) string {
	return `{"apiVersion":"example.org/v1","kind":"Gadget","metadata":{` + metadata + `}` + rest + `}`
}

func configMap(metadata, rest string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{` + metadata + `}` + rest + `}`
}

func deployment(metadata, image string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{` + metadata + `},"spec":{"selector":{"matchLabels":{"app":"web"}},` +
		`"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"` + image + `"}]}}}}`
}

func propagation(name, rest string) string {
	return `{"apiVersion":"propagation.karmada-direct.io/v1alpha1","kind":"DirectPropagation","metadata":{"name":"` + name + `"` + rest + `}`
}

const propagationSpec = `},"spec":{"resource":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"clusters":[{"name":"member1"}]}`

// furniture is what the script needs.
var furniture = []step{
	{what: "a namespace", method: http.MethodPost, path: "/api/v1/namespaces", body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`},
	{what: "a second namespace", method: http.MethodPost, path: "/api/v1/namespaces", body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"gone"}}`},
}

// gadgetCRD is a kind of two versions.
func gadgetCRD() *apiextensionsv1.CustomResourceDefinition {
	object := apiextensionsv1.JSONSchemaProps{Type: "object"}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"size"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"size":  {Type: "string", MaxLength: ptr.To[int64](5)},
		"color": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"red"`)}},
		"count": {Type: "integer"},
		"parts": {Type: "array", XListType: ptr.To("set"), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
	}, XValidations: apiextensionsv1.ValidationRules{{Rule: "self.size == oldSelf.size || self.size != 'old'", Message: "size never becomes old"}}}
	object.Properties = map[string]apiextensionsv1.JSONSchemaProps{
		"spec": spec, "status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"phase": {Type: "string"}, "ready": {Type: "boolean"}}},
	}
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &object},
		Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
	}
	second := *version.DeepCopy()
	second.Name, second.Storage = "v2", false
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.org", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version, second},
		},
	}
}

// writes are about objects of a CRD.
var writes = []step{
	{what: "create", method: http.MethodPost, path: gadgets, body: gadget(`"name":"web","labels":{"tier":"front"}`, `,"spec":{"size":"small"},"status":{"phase":"ignored"}`)},
	{what: "create what exists", method: http.MethodPost, path: gadgets, body: gadget(`"name":"web"`, `,"spec":{"size":"small"}`)},
	{what: "create in an absent namespace", method: http.MethodPost, path: strings.Replace(gadgets, "shop", "absent", 1), body: gadget(`"name":"web"`, `,"spec":{"size":"small"}`)},
	{what: "create for another namespace", method: http.MethodPost, path: gadgets, body: gadget(`"name":"x","namespace":"gone"`, `,"spec":{"size":"small"}`)},
	{what: "create without a name", method: http.MethodPost, path: gadgets, body: gadget(``, `,"spec":{"size":"small"}`)},
	{what: "create with a bad name", method: http.MethodPost, path: gadgets, body: gadget(`"name":"Web_1"`, `,"spec":{"size":"small"}`)},
	{what: "create with a bad label", method: http.MethodPost, path: gadgets, body: gadget(`"name":"x","labels":{"a b":"c"}`, `,"spec":{"size":"small"}`)},
	{what: "create with a resourceVersion", method: http.MethodPost, path: gadgets, body: gadget(`"name":"x","resourceVersion":"5"`, `,"spec":{"size":"small"}`)},
	{what: "create another kind", method: http.MethodPost, path: gadgets, body: `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"x"}}`},
	{what: "create in another version", method: http.MethodPost, path: gadgets, body: `{"apiVersion":"example.org/v2","kind":"Gadget","metadata":{"name":"x"}}`},
	{what: "create against the schema", method: http.MethodPost, path: gadgets, body: gadget(`"name":"x"`, `,"spec":{"size":"small","count":"three"}`)},
	{what: "create without what is required", method: http.MethodPost, path: gadgets, body: gadget(`"name":"x"`, `,"spec":{}`)},
	{what: "create with a duplicate", method: http.MethodPost, path: gadgets, body: gadget(`"name":"x"`, `,"spec":{"size":"small","parts":["a","a"]}`)},
	{what: "create with an unknown field", method: http.MethodPost, path: gadgets, body: gadget(`"name":"pruned"`, `,"spec":{"size":"small","weight":3}`)},
	{what: "create with an unknown field, strictly", method: http.MethodPost, path: gadgets + "?fieldValidation=Strict", body: gadget(`"name":"x"`, `,"spec":{"size":"small","weight":3}`)},
	{what: "create with a made name", method: http.MethodPost, path: gadgets, body: gadget(`"generateName":"made-"`, `,"spec":{"size":"small"}`)},
	{what: "create as a trial", method: http.MethodPost, path: gadgets + "?dryRun=All", body: gadget(`"name":"trial"`, `,"spec":{"size":"small"}`)},
	{what: "read the trial", method: http.MethodGet, path: gadgets + "/trial"},
	{what: "read", method: http.MethodGet, path: gadgets + "/web"},
	{what: "read in the other version", method: http.MethodGet, path: strings.Replace(gadgets, "v1", "v2", 1) + "/web"},
	{what: "read metadata", method: http.MethodGet, path: gadgets + "/web", accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"},
	{what: "update", method: http.MethodPut, path: gadgets + "/web", body: gadget(`"name":"web","resourceVersion":"$rv(web)","labels":{"tier":"front"}`, `,"spec":{"size":"large"},"status":{"phase":"ignored"}`)},
	{what: "update to the same", method: http.MethodPut, path: gadgets + "/web", body: gadget(`"name":"web","resourceVersion":"$rv(web)","labels":{"tier":"front"}`, `,"spec":{"size":"large","color":"red"}`)},
	{what: "update an old version", method: http.MethodPut, path: gadgets + "/web", body: gadget(`"name":"web","resourceVersion":"1"`, `,"spec":{"size":"small"}`)},
	{what: "update without a version", method: http.MethodPut, path: gadgets + "/web", body: gadget(`"name":"web"`, `,"spec":{"size":"small"}`)},
	{what: "update another identity", method: http.MethodPut, path: gadgets + "/web", body: gadget(`"name":"web","resourceVersion":"$rv(web)","uid":"$uid(pruned)"`, `,"spec":{"size":"small"}`)},
	{what: "update under another name", method: http.MethodPut, path: gadgets + "/web", body: gadget(`"name":"other","resourceVersion":"$rv(web)"`, `,"spec":{"size":"small"}`)},
	{what: "update what is absent", method: http.MethodPut, path: gadgets + "/absent", body: gadget(`"name":"absent","resourceVersion":"1"`, `,"spec":{"size":"small"}`)},
	{what: "update against a rule", method: http.MethodPut, path: gadgets + "/web", body: gadget(`"name":"web","resourceVersion":"$rv(web)"`, `,"spec":{"size":"old"}`)},
	{what: "update the labels alone", method: http.MethodPut, path: gadgets + "/web", body: gadget(`"name":"web","resourceVersion":"$rv(web)","labels":{"tier":"back"}`, `,"spec":{"size":"large","color":"red"}`)},
	{what: "update what nobody may", method: http.MethodPut, path: gadgets + "/web", body: gadget(`"name":"web","resourceVersion":"$rv(web)","labels":{"tier":"back"},"generation":9,"creationTimestamp":"2001-01-01T00:00:00Z","deletionTimestamp":"2001-01-01T00:00:00Z"`, `,"spec":{"size":"large","color":"red"}`)},
	{what: "update the status", method: http.MethodPut, path: gadgets + "/web/status", body: gadget(`"name":"web","resourceVersion":"$rv(web)","labels":{"tier":"back"}`, `,"spec":{"size":"ignored"},"status":{"phase":"running"}`)},
	{what: "update the status to the same", method: http.MethodPut, path: gadgets + "/web/status", body: gadget(`"name":"web","resourceVersion":"$rv(web)","labels":{"tier":"back"}`, `,"spec":{"size":"small"},"status":{"phase":"running"}`)},
	{what: "update the status of an old version", method: http.MethodPut, path: gadgets + "/web/status", body: gadget(`"name":"web","resourceVersion":"1"`, `,"spec":{"size":"small"},"status":{"phase":"x"}`)},
	{what: "update the status against the schema", method: http.MethodPut, path: gadgets + "/web/status", body: gadget(`"name":"web","resourceVersion":"$rv(web)"`, `,"spec":{"size":"small"},"status":{"ready":"yes"}`)},
	{what: "read another subresource", method: http.MethodGet, path: gadgets + "/web/scale"},
	{what: "read a kind that is not served", method: http.MethodGet, path: "/apis/example.org/v1/namespaces/shop/widgets/web"},
	{what: "read a version that is not served", method: http.MethodGet, path: "/apis/example.org/v3/namespaces/shop/gadgets/web"},
}

// patches are about patches.
var patches = []step{
	{what: "merge patch", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"metadata":{"annotations":{"a":"1"}},"spec":{"count":3}}`},
	{what: "merge patch without effect", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"spec":{"count":3}}`},
	{what: "merge patch that removes", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"metadata":{"annotations":{"a":null}},"spec":{"count":null,"color":null}}`},
	{what: "merge patch of an old version", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"metadata":{"resourceVersion":"1"},"spec":{"count":4}}`},
	{what: "merge patch of another identity", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"metadata":{"uid":"$uid(pruned)"},"spec":{"count":4}}`},
	{what: "merge patch of the current version", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"metadata":{"resourceVersion":"$rv(web)","uid":"$uid(web)"},"spec":{"count":4}}`},
	{what: "merge patch of the name", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"metadata":{"name":"other"}}`},
	{what: "merge patch of the status on the object", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"status":{"phase":"ignored"}}`},
	{what: "merge patch of the status", method: http.MethodPatch, as: merge, path: gadgets + "/web/status", body: `{"status":{"phase":"done"},"spec":{"count":9}}`},
	{what: "merge patch against the schema", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"spec":{"count":"four"}}`},
	{what: "merge patch of what is absent", method: http.MethodPatch, as: merge, path: gadgets + "/absent", body: `{"spec":{"count":4}}`},
	{what: "merge patch that is no JSON", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{`},
	{what: "JSON patch", method: http.MethodPatch, as: jsonPatch, path: gadgets + "/web", body: `[{"op":"replace","path":"/spec/count","value":5},{"op":"test","path":"/spec/size","value":"large"}]`},
	{what: "JSON patch whose test fails", method: http.MethodPatch, as: jsonPatch, path: gadgets + "/web", body: `[{"op":"test","path":"/spec/size","value":"small"}]`},
	{what: "create a Deployment", method: http.MethodPost, path: deploys, brief: true, body: deployment(`"name":"web"`, "a")},
	{what: "strategic merge patch of a Deployment", method: http.MethodPatch, as: strategic, path: deploys + "/web", brief: true, body: `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"b"},{"name":"side","image":"c"}]}}}}`},
	{what: "annotate a Deployment", method: http.MethodPatch, as: merge, path: deploys + "/web", brief: true, body: `{"metadata":{"annotations":{"a":"1"}}}`},
	{what: "label a Deployment", method: http.MethodPatch, as: merge, path: deploys + "/web", brief: true, body: `{"metadata":{"labels":{"a":"1"}}}`},
	{what: "the status of a Deployment", method: http.MethodPatch, as: merge, path: deploys + "/web/status", brief: true, body: `{"status":{"observedGeneration":3,"replicas":1}}`},
	{what: "create a ConfigMap", method: http.MethodPost, path: maps, body: configMap(`"name":"settings"`, `,"data":{"a":"1"},"unknown":"x"`)},
	{what: "update a ConfigMap without a version", method: http.MethodPut, path: maps + "/settings", body: configMap(`"name":"settings"`, `,"data":{"a":"2"}`)},
	{what: "update a ConfigMap to the same", method: http.MethodPut, path: maps + "/settings", body: configMap(`"name":"settings"`, `,"data":{"a":"2"}`)},
	{what: "update the status of a ConfigMap", method: http.MethodPut, path: maps + "/settings/status", body: configMap(`"name":"settings"`, ``)},
}

// deletions are about finalizers, preconditions and namespaces.
var deletions = []step{
	{what: "create with a finalizer", method: http.MethodPost, path: gadgets, body: gadget(`"name":"held","finalizers":["example.org/one","example.org/two"]`, `,"spec":{"size":"small"}`)},
	{what: "delete another version", method: http.MethodDelete, path: gadgets + "/held", body: `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"1"}}`},
	{what: "delete another identity", method: http.MethodDelete, path: gadgets + "/held", body: `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"$uid(web)"}}`},
	{what: "delete with preconditions", method: http.MethodDelete, path: gadgets + "/held", body: `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"$uid(held)","resourceVersion":"$rv(held)"}}`},
	{what: "delete again", method: http.MethodDelete, path: gadgets + "/held"},
	{what: "create what is being deleted", method: http.MethodPost, path: gadgets, body: gadget(`"name":"held"`, `,"spec":{"size":"small"}`)},
	{what: "add a finalizer too late", method: http.MethodPatch, as: merge, path: gadgets + "/held", body: `{"metadata":{"finalizers":["example.org/one","example.org/two","example.org/three"]}}`},
	{what: "undo a deletion", method: http.MethodPatch, as: merge, path: gadgets + "/held", body: `{"metadata":{"deletionTimestamp":null}}`},
	{what: "change what is being deleted", method: http.MethodPatch, as: merge, path: gadgets + "/held", body: `{"spec":{"size":"large"}}`},
	{what: "remove a finalizer", method: http.MethodPatch, as: merge, path: gadgets + "/held", body: `{"metadata":{"finalizers":["example.org/two"]}}`},
	{what: "remove the last finalizer", method: http.MethodPatch, as: merge, path: gadgets + "/held", body: `{"metadata":{"finalizers":null}}`},
	{what: "read what is gone", method: http.MethodGet, path: gadgets + "/held"},
	{what: "delete what is gone", method: http.MethodDelete, path: gadgets + "/held"},
	{what: "delete at once", method: http.MethodDelete, path: gadgets + "/pruned"},
	{what: "delete a ConfigMap", method: http.MethodDelete, path: maps + "/settings"},
	{what: "create for deletion in the foreground", method: http.MethodPost, path: gadgets, body: gadget(`"name":"parent"`, `,"spec":{"size":"small"}`)},
	{what: "delete in the foreground", method: http.MethodDelete, path: gadgets + "/parent", body: `{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground"}`},
	{what: "release it", method: http.MethodPatch, as: jsonPatch, path: gadgets + "/parent", body: `[{"op":"remove","path":"/metadata/finalizers"}]`},
	{what: "create for a collection", method: http.MethodPost, path: gadgets, body: gadget(`"name":"one","labels":{"batch":"1"}`, `,"spec":{"size":"small"}`)},
	{what: "create for a collection too", method: http.MethodPost, path: gadgets, body: gadget(`"name":"two","labels":{"batch":"1"}`, `,"spec":{"size":"small"}`)},
	{what: "list by label", method: http.MethodGet, path: gadgets + "?labelSelector=batch%3D1"},
	{what: "list by name", method: http.MethodGet, path: gadgets + "?fieldSelector=metadata.name%3Dtwo"},
	{what: "list by what cannot be selected", method: http.MethodGet, path: gadgets + "?fieldSelector=spec.size%3Dsmall"},
	{what: "list metadata", method: http.MethodGet, path: gadgets + "?labelSelector=batch", accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"},
	{what: "list everywhere in the other version", method: http.MethodGet, path: gadgetsV2 + "?labelSelector=batch"},
	{what: "list a future version", method: http.MethodGet, path: gadgets + "?resourceVersion=x"},
	{what: "delete the collection", method: http.MethodDelete, path: gadgets + "?labelSelector=batch%3D1"},
	{what: "list ConfigMaps", method: http.MethodGet, path: maps + "?fieldSelector=metadata.name%3Dabsent"},
	{what: "delete a namespace", method: http.MethodDelete, path: "/api/v1/namespaces/gone"},
	{what: "delete a namespace again", method: http.MethodDelete, path: "/api/v1/namespaces/gone"},
	{what: "create in a namespace that is being deleted", method: http.MethodPost, path: strings.Replace(maps, "shop", "gone", 1), until: http.StatusForbidden, body: configMap(`"name":"late"`, ``)},
}

// others are about kinds that libraries use.
var others = []step{
	{what: "create a Lease", method: http.MethodPost, path: leases, body: lease("", "a")},
	{what: "renew it", method: http.MethodPut, path: leases + "/leader", body: lease(`,"resourceVersion":"$rv(leader)"`, "b")},
	{what: "renew it without a version", method: http.MethodPut, path: leases + "/leader", body: lease("", "c")},
	{what: "renew an old version", method: http.MethodPut, path: leases + "/leader", body: lease(`,"resourceVersion":"1"`, "c")},
	{what: "create an Event", method: http.MethodPost, path: events, body: `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"web.1","namespace":"shop"},` +
		`"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"c","reportingInstance":"i","action":"A","reason":"R","type":"Normal",` +
		`"regarding":{"kind":"ConfigMap","name":"settings","namespace":"shop"}}`},
	{what: "count it", method: http.MethodPatch, as: strategic, path: events + "/web.1", body: `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:01.000000Z"}}`},
	{what: "may somebody", method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/subjectaccessreviews", body: `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"nobody","resourceAttributes":{"verb":"get","resource":"pods"}}}`},
	{what: "discover a group", method: http.MethodGet, path: "/apis/example.org"},
	{what: "discover a group that is absent", method: http.MethodGet, path: "/apis/absent.example.org/v1"},
	{what: "update another verb", method: http.MethodPut, path: gadgets, body: "{}"},
	{what: "patch a collection", method: http.MethodPatch, as: merge, path: gadgets, body: "{}"},
}

func lease(metadata, holder string) string {
	return `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"leader"` + metadata + `},"spec":{"holderIdentity":"` + holder +
		`","leaseDurationSeconds":15,"renewTime":"2026-01-01T00:00:00.000000Z"}}`
}

// propagations are about a CRD of this project, which has a default in the status.
var propagations = []step{
	{what: "create a DirectPropagation", method: http.MethodPost, path: propagate, body: propagation("web", propagationSpec)},
	{what: "update it to the same", method: http.MethodPut, path: propagate + "/web", body: propagation("web", `,"resourceVersion":"$rv(web)"`+propagationSpec)},
	{what: "update it to the same again", method: http.MethodPut, path: propagate + "/web", body: propagation("web", `,"resourceVersion":"$rv(web)"`+propagationSpec)},
	{what: "create one without clusters", method: http.MethodPost, path: propagate, body: propagation("none", `},"spec":{"resource":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}`)},
	{what: "change its resource", method: http.MethodPatch, as: merge, path: propagate + "/web", body: `{"spec":{"resource":{"name":"other"}}}`},
	{what: "name a cluster twice", method: http.MethodPatch, as: merge, path: propagate + "/web", body: `{"spec":{"clusters":[{"name":"a"},{"name":"a"}]}}`},
}

// versions are about a CRD that stops serving a version, and goes.
var versions = []step{
	{what: "read the CRD", method: http.MethodGet, path: crds + "/gadgets.example.org", brief: true},
	{what: "stop serving a version", method: http.MethodPatch, as: jsonPatch, path: crds + "/gadgets.example.org", brief: true, body: `[{"op":"replace","path":"/spec/versions/1/served","value":false}]`},
	{what: "list the version", method: http.MethodGet, path: gadgetsV2, until: http.StatusNotFound},
	{what: "hold an object", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"metadata":{"finalizers":["example.org/one"]}}`},
	{what: "delete the CRD", method: http.MethodDelete, path: crds + "/gadgets.example.org", brief: true},
	{what: "create while it is being deleted", method: http.MethodPost, path: gadgets, until: http.StatusForbidden, body: gadget(`"name":"late"`, `,"spec":{"size":"small"}`)},
	{what: "read the object", method: http.MethodGet, path: gadgets + "/web", contains: "deletionTimestamp"},
	{what: "release the object", method: http.MethodPatch, as: merge, path: gadgets + "/web", body: `{"metadata":{"finalizers":null}}`},
	{what: "read the CRD that is gone", method: http.MethodGet, path: crds + "/gadgets.example.org", until: http.StatusNotFound},
	{what: "list the kind that is gone", method: http.MethodGet, path: gadgets, until: http.StatusNotFound},
}
