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

// Chartdocs generates documentation that repeats other files: the chart's README,
// from README.md.tmpl and the comments of values.yaml, and the files that a page
// quotes.
//
//	chartdocs readme charts/direct-propagation
//	chartdocs quote docs/install.md
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chartdocs:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want `readme CHART` or `quote PAGE`")
	}
	switch args[0] {
	case "readme":
		return readme(args[1])
	case "quote":
		return quote(args[1])
	default:
		return fmt.Errorf("want readme or quote, not %q", args[0])
	}
}

// row is a value: its path, its default as JSON, and its comment.
type row struct{ Key, Default, Text string }

func readme(chart string) error {
	meta := struct {
		Version    string `yaml:"version"`
		AppVersion string `yaml:"appVersion"`
	}{}
	if err := load(filepath.Join(chart, "Chart.yaml"), &meta); err != nil {
		return err
	}
	values := yaml.Node{}
	if err := load(filepath.Join(chart, "values.yaml"), &values); err != nil {
		return err
	}
	rows, err := describe("", values.Content[0])
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	page, err := template.ParseFiles(filepath.Join(chart, "README.md.tmpl"))
	if err != nil {
		return err
	}
	out := &bytes.Buffer{}
	data := map[string]any{"Version": meta.Version, "AppVersion": meta.AppVersion, "Values": rows}
	if err := page.Option("missingkey=error").Execute(out, data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(chart, "README.md"), out.Bytes(), 0o644)
}

func load(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// describe lists the values of a mapping that have their own comment, each with
// everything in it. Every value must have a comment or contain values that have one.
func describe(path string, mapping *yaml.Node) ([]row, error) {
	var rows []row
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		here := strings.TrimPrefix(path+"."+key.Value, ".")
		text, found := strings.CutPrefix(strings.TrimSpace(key.HeadComment), "# -- ")
		switch {
		case found:
			standard, err := asJSON(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", here, err)
			}
			rows = append(rows, row{Key: here, Default: standard, Text: strings.ReplaceAll(text, "\n# ", " ")})
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			below, err := describe(here, value)
			if err != nil {
				return nil, err
			}
			rows = append(rows, below...)
		default:
			return nil, fmt.Errorf("line %d: %s has no comment that begins with \"# -- \"", key.Line, here)
		}
	}
	return rows, nil
}

func asJSON(value *yaml.Node) (string, error) {
	var plain any
	if err := value.Decode(&plain); err != nil {
		return "", err
	}
	out := &bytes.Buffer{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(plain); err != nil {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// quoted matches a block of YAML below a comment that names the quoted files.
var quoted = regexp.MustCompile("(?s)(<!-- quote ([^>]*) -->\n```yaml\n).*?(```\n)")

// quote fills the blocks of a page with the files that they name, relative to the
// working folder.
func quote(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	blocks := quoted.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		return fmt.Errorf("%s quotes nothing", page)
	}
	result := string(text)
	for _, block := range blocks {
		var files []string
		for _, name := range strings.Fields(block[2]) {
			content, err := os.ReadFile(name)
			if err != nil {
				return fmt.Errorf("%s quotes: %w", page, err)
			}
			files = append(files, string(content))
		}
		result = strings.Replace(result, block[0], block[1]+strings.Join(files, "---\n")+block[3], 1)
	}
	return os.WriteFile(page, []byte(result), 0o644)
}
