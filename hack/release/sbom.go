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

package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM lists what the programs are built from, as they say it themselves, as a
// software bill of materials in the format of CycloneDX.
func writeSBOM(o order, programs []program, path string) error {
	modules, builtFrom := map[string]cyclonedx.Component{}, map[string][]string{}
	components := []cyclonedx.Component{}
	for _, built := range programs {
		info, err := buildinfo.ReadFile(built.path)
		if err != nil {
			return err
		}
		component, err := fileComponent(built)
		if err != nil {
			return err
		}
		components = append(components, component)
		for _, module := range modulesOf(info) {
			modules[module.BOMRef] = module
			builtFrom[component.BOMRef] = append(builtFrom[component.BOMRef], module.BOMRef)
		}
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = serialNumber(o)
	root := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeApplication, BOMRef: "controller-manager", Name: "controller-manager", Version: o.version,
		PackageURL: "pkg:golang/github.com/karmada-direct/karmada-direct@" + o.version + "#cmd/controller-manager",
		Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
	}
	bom.Metadata = &cyclonedx.Metadata{Timestamp: o.time.Format(time.RFC3339), Component: &root}
	files := []string{}
	dependencies := []cyclonedx.Dependency{}
	for _, component := range components {
		files = append(files, component.BOMRef)
		needed := builtFrom[component.BOMRef]
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: component.BOMRef, Dependencies: &needed})
	}
	dependencies = append(dependencies, cyclonedx.Dependency{Ref: root.BOMRef, Dependencies: &files})
	for _, module := range modules {
		components = append(components, module)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components, bom.Dependencies = &components, &dependencies
	return create(path, func(out io.Writer) error {
		return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	})
}

// serialNumber is usually random. This one is the same each time that the commit is
// built, in the form that RFC 9562 calls UUIDv8.
func serialNumber(o order) string {
	sum := sha256.Sum256([]byte(o.commit + " " + o.version))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// fileComponent describes the program for one platform.
func fileComponent(built program) (cyclonedx.Component, error) {
	content, err := os.ReadFile(built.path)
	if err != nil {
		return cyclonedx.Component{}, err
	}
	sum := sha256.Sum256(content)
	return cyclonedx.Component{
		Type: cyclonedx.ComponentTypeFile, BOMRef: built.name, Name: built.name,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}, nil
}

// modulesOf returns the modules of a program, and the standard library.
func modulesOf(info *debug.BuildInfo) []cyclonedx.Component {
	components := []cyclonedx.Component{moduleComponent("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, moduleComponent(module.Path, module.Version, module.Sum))
	}
	return components
}

func moduleComponent(path, version, sum string) cyclonedx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", path, strings.ReplaceAll(version, "+", "%2B"))
	component := cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}
	if sum != "" { // as in go.sum, which is not the hash of a file
		component.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: sum}}
	}
	return component
}
