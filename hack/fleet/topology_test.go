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
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layOut lays out a fleet of a push and a pull member on ports from 20000 up.
func layOut(t *testing.T, args ...ComponentArg) []*Process {
	t.Helper()
	return layOutConfig(t, Config{Name: "demo", ComponentArgs: args})
}

// everything is the configuration of a fleet with all options.
var everything = Config{Name: "demo", Host: true, ArgoCD: true}

// layOutConfig lays out a fleet with the default members.
func layOutConfig(t *testing.T, config Config) []*Process {
	t.Helper()
	var err error
	if config.Members, err = parseMembers(defaultMembers); err != nil {
		t.Fatal(err)
	}
	port := firstPort - 1
	processes, err := topology(config, "/fleet", func() int { port++; return port })
	if err != nil {
		t.Fatal(err)
	}
	return processes
}

func processNames(processes []*Process) []string {
	names := make([]string, len(processes))
	for i, p := range processes {
		names[i] = p.Name
	}
	return names
}

func TestTopologyNamesProcesses(t *testing.T) {
	want := []string{
		"etcd",
		"karmada-apiserver", "karmada-kube-controller-manager", "karmada-aggregated-apiserver",
		"karmada-controller-manager", "karmada-scheduler", "karmada-webhook",
		"member1-kube-apiserver", "member1-kube-controller-manager", "member1-kube-scheduler", "member1-kwok",
		"member2-kube-apiserver", "member2-kube-controller-manager", "member2-kube-scheduler", "member2-kwok",
		"member2-karmada-agent",
	}
	if got := processNames(layOut(t)); !slices.Equal(got, want) {
		t.Errorf("processes:\n got %v\nwant %v", got, want)
	}
}

func TestTopologyAddsAHostClusterAndArgoCD(t *testing.T) {
	hasGroup := func(config Config, group string, want ...string) {
		t.Helper()
		processes := layOutConfig(t, config)
		got, err := selectProcesses(processes, []string{group})
		if len(want) == 0 {
			checkError(t, err, "no process or member")
			return
		}
		if err != nil || !slices.Equal(processNames(got), want) {
			t.Errorf("group %s has processes %v, error %v; want %v", group, processNames(got), err, want)
		}
	}
	host := []string{"host-kube-apiserver", "host-kube-controller-manager", "host-kube-scheduler", "host-kwok"}
	argoCD := []string{"argocd-redis-server", "argocd-repo-server", "argocd-application-controller"}
	hasGroup(Config{Name: "demo"}, groupHost)
	hasGroup(Config{Name: "demo", Host: true}, groupHost, host...)
	hasGroup(Config{Name: "demo", Host: true}, groupArgoCD)
	hasGroup(everything, groupHost, host...)
	hasGroup(everything, groupArgoCD, argoCD...)
}

func TestTopologyUsesEachPortOnce(t *testing.T) {
	seen := map[int]string{}
	for _, p := range layOutConfig(t, everything) {
		for _, port := range append([]int{p.Port}, p.OtherPorts...) {
			if other, found := seen[port]; found {
				t.Errorf("%s and %s both have port %d", other, p.Name, port)
			}
			seen[port] = p.Name
			if !strings.Contains(strings.Join(p.Args, " "), strconv.Itoa(port)) {
				t.Errorf("%s has port %d, which is in no argument", p.Name, port)
			}
		}
	}
}

// Every address in an argument must be a loopback address, so that no other machine
// can reach a test fleet.
func TestTopologyListensOnLoopbackOnly(t *testing.T) {
	withPort := regexp.MustCompile(`(\S*):2\d{4}\b`)
	for _, p := range layOutConfig(t, everything) {
		for _, arg := range p.Args {
			match := withPort.FindStringSubmatch(arg)
			if match != nil && !strings.HasSuffix(match[1], loopback) {
				t.Errorf("%s: %s is not on loopback", p.Name, arg)
			}
		}
		if strings.Contains(strings.Join(p.Args, " "), "--secure-port=") && !slices.Contains(p.Args, "--bind-address="+loopback) {
			t.Errorf("%s has a secure port without a bind address", p.Name)
		}
		ready, err := url.Parse(p.ReadyURL)
		if err != nil || ready.Hostname() != loopback {
			t.Errorf("%s has the readiness URL %q, which is not on loopback", p.Name, p.ReadyURL)
		}
	}
}

func TestTopologyNeedsAreKnownAndAcyclic(t *testing.T) {
	met := []string{stepCRDs, stepClusterAPI, stepArgoCD}
	// Every need must be listed before the process that has it.
	for _, p := range layOutConfig(t, everything) {
		for _, need := range p.Needs {
			if !slices.Contains(met, need) {
				t.Errorf("%s needs %q, which is not listed before it", p.Name, need)
			}
		}
		met = append(met, p.Name)
	}
}

func TestComponentArgs(t *testing.T) {
	processes := layOut(t,
		ComponentArg{"kube-apiserver", "--v=4"},
		ComponentArg{"member1-kube-apiserver", "--v=5"},
	)
	for name, want := range map[string][]string{
		"karmada-apiserver":      {"--v=4"},
		"member1-kube-apiserver": {"--v=4", "--v=5"},
		"member1-kube-scheduler": nil,
	} {
		i := slices.Index(processNames(processes), name)
		got := slices.DeleteFunc(slices.Clone(processes[i].Args), func(arg string) bool { return !strings.HasPrefix(arg, "--v=") })
		if !slices.Equal(got, want) {
			t.Errorf("%s has extra arguments %v, want %v", name, got, want)
		}
	}
	err := Config{ComponentArgs: []ComponentArg{{"no-such", "--v=4"}}}.validate()
	checkError(t, err, "no component has that name")
}

func TestSelectProcesses(t *testing.T) {
	processes := layOut(t)
	for _, test := range []struct {
		names   []string
		want    []string
		wantErr string
	}{
		{names: []string{"etcd"}, want: []string{"etcd"}},
		{names: []string{"member1"}, want: []string{"member1-kube-apiserver", "member1-kube-controller-manager", "member1-kube-scheduler", "member1-kwok"}},
		{names: []string{"member1-kwok", "etcd", "member1-kwok"}, want: []string{"member1-kwok", "etcd"}},
		{names: []string{"member"}, wantErr: "no process or member"},
	} {
		t.Run(strings.Join(test.names, " "), func(t *testing.T) {
			got, err := selectProcesses(processes, test.names)
			checkError(t, err, test.wantErr)
			if !slices.Equal(processNames(got), append([]string{}, test.want...)) {
				t.Errorf("selected %v, want %v", processNames(got), test.want)
			}
		})
	}
}
