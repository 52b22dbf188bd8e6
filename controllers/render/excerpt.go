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

package render

import (
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// The excerpt of a status that is too large explains why an object is not healthy.
const (
	maxKeptConditions = 8
	maxKeptContainers = 4
	// maxKeptText is in bytes.
	maxKeptText = 160
)

// excerpt copies the few fields of a status that explain what is wrong: numbers, the
// phase, conditions and why containers wait.
func excerpt(raw []byte) map[string]any {
	var status map[string]any
	if err := utiljson.Unmarshal(raw, &status); err != nil {
		return map[string]any{}
	}
	kept := map[string]any{}
	for key, value := range status {
		switch value.(type) {
		case int64, float64, bool:
			kept[key] = value
		}
	}
	keep(kept, status, "phase", "reason", "message")
	if conditions := conditionsIn(status); len(conditions) > 0 {
		kept["conditions"] = conditions
	}
	for _, key := range []string{"initContainerStatuses", "containerStatuses"} {
		if containers := containersIn(status[key]); len(containers) > 0 {
			kept[key] = containers
		}
	}
	return kept
}

// keep copies strings, cut to a maximum length.
func keep(kept, from map[string]any, keys ...string) {
	for _, key := range keys {
		if text, ok := from[key].(string); ok && text != "" {
			kept[key] = strings.ToValidUTF8(text[:min(len(text), maxKeptText)], "")
		}
	}
}

// conditionsIn returns conditions; those that are not True come first.
func conditionsIn(status map[string]any) []any {
	conditions, _ := status["conditions"].([]any)
	var first, last []any
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		kept := map[string]any{}
		keep(kept, condition, "type", "status", "reason", "message")
		if kept["status"] == "True" {
			last = append(last, kept)
		} else {
			first = append(first, kept)
		}
	}
	all := slices.Concat(first, last)
	return all[:min(len(all), maxKeptConditions)]
}

// containersIn returns the states of waiting and failed containers.
func containersIn(list any) []any {
	containers, _ := list.([]any)
	var found []any
	for _, item := range containers {
		container, _ := item.(map[string]any)
		states, _ := container["state"].(map[string]any)
		for _, name := range []string{"waiting", "terminated"} {
			state, there := states[name].(map[string]any)
			if !there || len(found) == maxKeptContainers {
				continue
			}
			kept := map[string]any{}
			keep(kept, state, "reason", "message")
			if code, failed := state["exitCode"]; failed {
				kept["exitCode"] = code
			}
			found = append(found, map[string]any{"state": map[string]any{name: kept}})
		}
	}
	return found
}
