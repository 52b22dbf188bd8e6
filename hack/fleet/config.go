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
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Mode is how Karmada reaches a member cluster.
type Mode string

const (
	// Push members are synchronized by karmada-controller-manager.
	Push Mode = "push"
	// Pull members run their own karmada-agent.
	Pull Mode = "pull"
)

// Member is a member cluster of a fleet.
type Member struct {
	Name string `json:"name"`
	Mode Mode   `json:"mode"`
	// Unjoined means that `fleet unjoin` removed the member from Karmada. Its agent
	// then stays stopped, or else it would register the member again.
	Unjoined bool `json:"unjoined,omitempty"`
}

// ComponentArg is an extra argument for every process that is called Component or
// runs the program Component.
type ComponentArg struct {
	Component string `json:"component"`
	Arg       string `json:"arg"`
}

// Config is what the flags of `fleet up` configure.
type Config struct {
	Name    string   `json:"name"`
	Members []Member `json:"members"`
	// Host adds the cluster in which Karmada's own Pods would run. In a fleet, Karmada
	// runs as processes, so the host cluster is empty. It is not a member.
	Host bool `json:"host,omitempty"`
	// ArgoCD adds Argo CD to the host cluster, with the Karmada API server as a
	// destination cluster.
	ArgoCD        bool           `json:"argoCD,omitempty"`
	ComponentArgs []ComponentArg `json:"componentArgs,omitempty"`
	// KarmadaVersion is the version of Karmada to run in place of the one that
	// components/go.mod pins.
	KarmadaVersion string `json:"karmadaVersion,omitempty"`
}

const (
	defaultName    = "demo"
	defaultMembers = "member1=push,member2=pull"
)

// A member's name becomes the name of a Cluster (at most 48 characters), the name of
// a kubeconfig context, and a part of file and process names.
var namePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,46}[a-z0-9])?$`)

// parseMembers parses "member1=push,member2=pull". A name without a mode means push.
func parseMembers(s string) ([]Member, error) {
	var members []Member
	seen := map[string]bool{}
	for item := range strings.SplitSeq(s, ",") {
		name, mode, found := strings.Cut(strings.TrimSpace(item), "=")
		if !found {
			mode = string(Push)
		}
		switch {
		case slices.Contains([]string{groupKarmada, groupHost, groupArgoCD, programEtcd}, name):
			return nil, fmt.Errorf("member name %q is reserved for processes of the control plane", name)
		case !namePattern.MatchString(name):
			return nil, fmt.Errorf("member name %q: want at most 48 lowercase letters, digits and dashes, starting with a letter", name)
		case seen[name]:
			return nil, fmt.Errorf("member %q is listed twice", name)
		case Mode(mode) != Push && Mode(mode) != Pull:
			return nil, fmt.Errorf("member %s: want mode push or pull, not %q", name, mode)
		}
		seen[name] = true
		members = append(members, Member{Name: name, Mode: Mode(mode)})
	}
	return members, nil
}

// parseComponentArgs parses values like "karmada-controller-manager=--v=4".
func parseComponentArgs(values []string) ([]ComponentArg, error) {
	var args []ComponentArg
	for _, value := range values {
		component, arg, found := strings.Cut(value, "=")
		if !found || component == "" || !strings.HasPrefix(arg, "-") {
			return nil, fmt.Errorf("component argument %q: want COMPONENT=--flag=value", value)
		}
		args = append(args, ComponentArg{Component: component, Arg: arg})
	}
	return args, nil
}

// validate finds mistakes that only the complete layout shows, such as an argument
// for a component that does not exist.
func (c Config) validate() error {
	_, err := topology(c, "", func() int { return 0 })
	return err
}

func formatComponentArgs(args []ComponentArg) string {
	if len(args) == 0 {
		return "none"
	}
	items := make([]string, len(args))
	for i, a := range args {
		items[i] = a.Component + "=" + a.Arg
	}
	return strings.Join(items, " ")
}

func formatMembers(members []Member) string {
	items := make([]string, len(members))
	for i, m := range members {
		items[i] = fmt.Sprintf("%s=%s", m.Name, m.Mode)
	}
	return strings.Join(items, ",")
}
