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

package chart

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWrongValuesAreRefused(t *testing.T) {
	for setting, want := range map[string]string{
		"crds.install=pod":                           "at '/crds/install': value must be one of 'initContainer', 'job', 'none'",
		"rbac.install=true":                          "at '/rbac/install': value must be one of 'initContainer', 'job', 'none'",
		"karmada.preset=kubeadm":                     "at '/karmada/preset': value must be one of 'karmadactl', 'helm', 'operator', 'custom'",
		"karmada.preset=custom":                      "say in karmada.kubeconfigSecret.name which Secret holds the kubeconfig",
		"replicaCount=two":                           "at '/replicaCount': got string, want integer",
		"controler.verbosity=1":                      "additional properties 'controler' not allowed",
		"controller.verbose=1":                       "at '/controller': additional properties 'verbose' not allowed",
		"controller.kubeAPIQPS=0":                    "at '/controller/kubeAPIQPS': exclusiveMinimum: got 0, want 0",
		"controller.kubeAPIQPS=5":                    "controller.kubeAPIBurst must be at least 1",
		"controller.leaderElection.enabled=false":    "controller.leaderElection.enabled must be true, or every replica reconciles",
		"controller.leaderElection.leaseDuration=15": "at '/controller/leaderElection/leaseDuration': got number, want string",
		"controller.extraArgs={v=4}":                 "at '/controller/extraArgs/0': 'v=4' does not match pattern '^--'",
		"metrics.port=0":                             "at '/metrics/port': minimum: got 0, want 1",
		"image.digest=abc":                           "at '/image/digest': 'abc' does not match pattern",
		"rbac.propagated={Deployments}":              "at '/rbac/propagated/0': 'Deployments' does not match pattern",
		"image.registry=":                            "image.registry: say which registry has the image",
		"image.registry=karmada":                     "image.registry: say which registry has the image",
		"image.repository=":                          "image.repository: say which image to run",
		"image.repository=null":                      "image.repository: say which image to run",
		"rbac.tokenLifetime=1 day":                   "at '/rbac/tokenLifetime'",
		"rbac.propagated=null":                       "", // null takes the default away, and with it the kinds
	} {
		t.Run(setting, func(t *testing.T) {
			_, err := tryRender(t, setting)
			if want == "" {
				if err != nil {
					t.Errorf("the values are rejected: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want one that contains %q", err, want)
			}
		})
	}
}

// The schema contains every value, and nothing else.
func TestSchemaFitsValues(t *testing.T) {
	loaded := loadChart(t)
	schema := map[string]any{}
	if err := json.Unmarshal(loaded.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	properties, _ := schema["properties"].(map[string]any)
	delete(properties, "global") // Helm defines it
	compare(t, "", loaded.Values, schema, schema)
}

func compare(t *testing.T, path string, values, schema, root map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		definitions, _ := root["$defs"].(map[string]any)
		schema, _ = definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	properties, listed := schema["properties"].(map[string]any)
	if open, said := schema["additionalProperties"].(bool); !listed || !said || open {
		return // Kubernetes defines the content
	}
	for name, value := range values {
		below, known := properties[name].(map[string]any)
		if !known {
			t.Errorf("the schema does not contain %s.%s", path, name)
			continue
		}
		if nested, ok := value.(map[string]any); ok {
			compare(t, path+"."+name, nested, below, root)
		}
	}
	if strings.HasSuffix(path, "Probe") || strings.HasSuffix(strings.ToLower(path), "resources") {
		return // Kubernetes has more fields than the chart sets
	}
	for name := range properties {
		if _, known := values[name]; !known {
			t.Errorf("the schema contains %s.%s, which is not a value", path, name)
		}
	}
}

// The notes name the image that the Pods run, and say how it gets where they find it.
func TestNotesNameTheImage(t *testing.T) {
	for setting, want := range map[string]string{
		"image.tag=v9.8.7":                               "make image push-image IMAGE=registry.example.org/karmada-direct/controller-manager:v9.8.7",
		"image.registry=localhost":                       "kind load image-archive bin/image.tar",
		"image.digest=sha256:" + strings.Repeat("0", 64): "make image push-image IMAGE=<name>:<tag>",
	} {
		r := render(t, setting)
		if image := r.pod().Containers[0].Image; !strings.Contains(r.notes, "Its image is "+image+".") || !strings.Contains(r.notes, want) {
			t.Errorf("with %s, the notes do not name the image %s, or lack %q:\n%s", setting, image, want, r.notes)
		}
	}
}
