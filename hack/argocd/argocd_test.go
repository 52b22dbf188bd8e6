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

package argocd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const folder = "../../docs/argocd"

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{folder}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func objectFrom(t *testing.T, path ...string) map[string]any {
	t.Helper()
	object := map[string]any{}
	decode(t, read(t, path...), &object)
	return object
}

// The health checks compare times correctly in every time zone.
func TestHealth(t *testing.T) {
	cases := struct {
		Tests []struct {
			HealthStatus map[string]any `json:"healthStatus"`
			InputPath    string         `json:"inputPath"`
		} `json:"tests"`
	}{}
	decode(t, read(t, "health_test.yaml"), &cases)
	used := map[string]bool{}
	script := read(t, "health.lua")
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("far east", 14*60*60), time.FixedZone("far west", -12*60*60)} {
		time.Local = zone
		for _, test := range cases.Tests {
			used[filepath.Base(test.InputPath)] = true
			for _, kind := range []string{"DirectPropagation", "ClusterDirectPropagation"} {
				object := objectFrom(t, test.InputPath)
				object["kind"] = kind
				if difference := cmp.Diff(any(test.HealthStatus), run(t, script, object)); difference != "" {
					t.Errorf("%s, %s, %s (-want +got):\n%s", zone, kind, test.InputPath, difference)
				}
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "testdata", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the test data: %v, %v", files, err)
	}
	for _, file := range files {
		if !used[filepath.Base(file)] {
			t.Errorf("no case uses %s", file)
		}
	}
}

// Trouble is Progressing at first and then Degraded. The time counts from the last
// transition of the row.
func TestPatience(t *testing.T) {
	script := read(t, "health.lua")
	for _, test := range []struct {
		file string
		age  time.Duration
		want string
	}{
		{"refused.yaml", 50 * time.Second, "Progressing"},
		{"refused.yaml", 70 * time.Second, "Degraded"},
		{"unhealthy.yaml", 290 * time.Second, "Progressing"},
		{"unhealthy.yaml", 310 * time.Second, "Degraded"},
		{"unreachable.yaml", 24 * time.Hour, "Progressing"},
		{"applying.yaml", 24 * time.Hour, "Progressing"},
	} {
		t.Run(fmt.Sprintf("%s %v", test.file, test.age), func(t *testing.T) {
			object := objectFrom(t, "testdata", test.file)
			status, _ := object["status"].(map[string]any)
			rows, _ := status["clusters"].([]any)
			for _, row := range rows {
				row, _ := row.(map[string]any)
				row["lastTransitionTime"] = time.Now().Add(-test.age).UTC().Format(time.RFC3339)
			}
			health, _ := run(t, script, object).(map[string]any)
			if health["status"] != test.want {
				t.Errorf("health is %v, want %s", health, test.want)
			}
		})
	}
}

func TestActions(t *testing.T) {
	cases := struct {
		DiscoveryTests []struct {
			InputPath string           `json:"inputPath"`
			Result    []map[string]any `json:"result"`
		} `json:"discoveryTests"`
		ActionTests []struct {
			Action             string `json:"action"`
			InputPath          string `json:"inputPath"`
			ExpectedOutputPath string `json:"expectedOutputPath"`
		} `json:"actionTests"`
	}{}
	decode(t, read(t, "actions", "action_test.yaml"), &cases)
	if len(cases.DiscoveryTests) == 0 || len(cases.ActionTests) == 0 {
		t.Fatal("there are no cases")
	}
	for _, test := range cases.DiscoveryTests {
		want := map[string]any{}
		for _, action := range test.Result {
			want[fmt.Sprint(action["name"])] = map[string]any{"disabled": action["disabled"]}
		}
		got := run(t, read(t, "actions", "discovery.lua"), objectFrom(t, "actions", test.InputPath))
		if difference := cmp.Diff(any(want), got); difference != "" {
			t.Errorf("%s (-want +got):\n%s", test.InputPath, difference)
		}
	}
	for _, test := range cases.ActionTests {
		got := run(t, read(t, "actions", test.Action, "action.lua"), objectFrom(t, "actions", test.InputPath))
		if difference := cmp.Diff(any(objectFrom(t, "actions", test.ExpectedOutputPath)), got); difference != "" {
			t.Errorf("%s of %s (-want +got):\n%s", test.Action, test.InputPath, difference)
		}
	}
}

// The ConfigMap that users apply contains the tested scripts.
func TestConfigMap(t *testing.T) {
	config := struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Data       map[string]string `json:"data"`
	}{}
	decode(t, read(t, "argocd-cm.yaml"), &config)
	want := map[string]string{}
	for _, kind := range []string{"DirectPropagation", "ClusterDirectPropagation"} {
		want["resource.customizations.health.propagation.karmada-direct.io_"+kind] = read(t, "health.lua")
		key := "resource.customizations.actions.propagation.karmada-direct.io_" + kind
		actions := struct {
			Discovery   string `json:"discovery.lua"`
			Definitions []struct {
				Name   string `json:"name"`
				Action string `json:"action.lua"`
			} `json:"definitions"`
		}{}
		decode(t, config.Data[key], &actions)
		got := map[string]string{"discovery": actions.Discovery}
		for _, definition := range actions.Definitions {
			got[definition.Name] = definition.Action
		}
		if difference := cmp.Diff(scripts(t), got); difference != "" {
			t.Errorf("the actions of %s (-want +got):\n%s", kind, difference)
		}
		want[key] = config.Data[key]
	}
	if difference := cmp.Diff(want, maps.Clone(config.Data)); difference != "" {
		t.Errorf("the ConfigMap (-want +got):\n%s", difference)
	}
}

// scripts are the scripts of the actions, by action, and the one that discovers them.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{"discovery": read(t, "actions", "discovery.lua")}
	files, err := filepath.Glob(filepath.Join(folder, "actions", "*", "action.lua"))
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the actions: %v, %v", files, err)
	}
	for _, file := range files {
		action := filepath.Base(filepath.Dir(file))
		found[action] = read(t, "actions", action, "action.lua")
	}
	return found
}

// The Lua of these tests is as restricted as that of Argo CD.
func TestLuaIsRestricted(t *testing.T) {
	for script, want := range map[string]string{
		`return {x = string.upper("a")}`:        "attempt to index a non-table object(nil) with key 'upper'",
		`return {x = ("a"):upper()}`:            "attempt to index a non-table object(string) with key 'upper'",
		`return {x = math.floor(1)}`:            "attempt to index a non-table object(nil) with key 'floor'",
		`return {x = os.time()}`:                "attempt to index a non-table object(nil) with key 'time'",
		`return {x = require("os").getenv("")}`: "attempt to call a non-function object",
		`while true do end`:                     "context deadline exceeded",
	} {
		if _, err := tryRun(script, map[string]any{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want one that contains %q", script, err, want)
		}
	}
}
