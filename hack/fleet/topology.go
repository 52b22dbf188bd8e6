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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The names of the programs, as `fleet build` creates them.
const (
	programEtcd                     = "etcd"
	programKubeAPIServer            = "kube-apiserver"
	programKubeControllerManager    = "kube-controller-manager"
	programKubeScheduler            = "kube-scheduler"
	programKubectl                  = "kubectl"
	programKwok                     = "kwok"
	programKarmadaAggregated        = "karmada-aggregated-apiserver"
	programKarmadaControllerManager = "karmada-controller-manager"
	programKarmadaScheduler         = "karmada-scheduler"
	programKarmadaWebhook           = "karmada-webhook"
	programKarmadaAgent             = "karmada-agent"
	programKarmadactl               = "karmadactl"
	programArgoCDController         = "argocd-application-controller"
	programArgoCDRepoServer         = "argocd-repo-server"
)

const programRedis = "redis-server"

// machinePrograms are programs that the machine must provide. Argo CD's repo server
// runs git.
var machinePrograms = []string{programRedis, "git"}

const (
	// groupKarmada is the group of the Karmada control plane's processes. The processes
	// of a member are in the group with the member's name.
	groupKarmada = "karmada"
	// groupHost is the group of the host cluster's processes, and the name of its
	// context.
	groupHost = "host"
	// groupArgoCD is the group of Argo CD's processes.
	groupArgoCD = "argocd"
	// karmadaContext is the kubeconfig context of the Karmada API server. Karmada's own
	// scripts use the same name.
	karmadaContext = "karmada-apiserver"
)

// Setup steps that are not processes, but that processes wait for.
const (
	stepCRDs       = "Karmada's CRDs"
	stepClusterAPI = "Karmada's cluster API"
	stepWebhooks   = "Karmada's webhook configurations"
	stepArgoCD     = "Argo CD's CRDs and settings"
)

// Process is a process of a fleet: how to run it, and its current identity.
type Process struct {
	// Name is unique in the fleet. Group is a member's name, "karmada", "host",
	// "argocd" or "etcd"; `fleet stop` and `fleet start` accept it too.
	Name    string   `json:"name"`
	Group   string   `json:"group"`
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Env     []string `json:"env,omitempty"`
	// Port is the port on which the process serves.
	Port int `json:"port"`
	// OtherPorts are ports for metrics, peers and the like.
	OtherPorts []int  `json:"otherPorts,omitempty"`
	Log        string `json:"log"`
	// ReadyURL returns status 200 when the process is ready. A redis URL answers PONG.
	// An HTTPS server is verified with CAFile.
	ReadyURL string `json:"readyURL"`
	CAFile   string `json:"caFile,omitempty"`
	// Needs are the processes and steps that must be ready first.
	Needs []string `json:"needs,omitempty"`
	// Identity is nil if the process was stopped on purpose or never started.
	Identity *Identity `json:"identity,omitempty"`

	// extraArgs apply to the next start only.
	extraArgs []string
}

// plane is a Kubernetes control plane: that of Karmada, of the host cluster, or of a
// member.
type plane struct {
	name       string // karmada, host, or the member's name
	pki        string // the folder of its certificates
	kubeconfig string
	port       int // of its API server
	etcd       int
}

func (p plane) file(name string) string { return filepath.Join(p.pki, name) }

// apiServer returns the name of the plane's API server process.
func (p plane) apiServer() string {
	if p.name == groupKarmada {
		return karmadaContext
	}
	return p.name + "-" + programKubeAPIServer
}

func (p plane) controllerManager() string { return p.name + "-" + programKubeControllerManager }

// topology lays out all processes of a fleet in the folder dir. It is pure: the
// ports come from nextPort.
func topology(config Config, dir string, nextPort func() int) ([]*Process, error) {
	t := &layout{dir: dir, nextPort: nextPort}
	etcd := t.etcd()
	t.karmada(t.plane(groupKarmada, etcd.Port))
	if config.Host {
		host := t.plane(groupHost, etcd.Port)
		t.cluster(host)
		if config.ArgoCD {
			t.argoCD(host)
		}
	}
	for _, member := range config.Members {
		t.member(member, t.plane(member.Name, etcd.Port))
	}
	for _, extra := range config.ComponentArgs {
		if err := t.addArg(extra); err != nil {
			return nil, err
		}
	}
	return t.processes, nil
}

// layout collects the processes of a fleet.
type layout struct {
	dir       string
	nextPort  func() int
	processes []*Process
}

func (t *layout) plane(name string, etcdPort int) plane {
	return plane{
		name:       name,
		pki:        filepath.Join(t.dir, "pki", name),
		kubeconfig: kubeconfigPath(t.dir, name),
		port:       t.nextPort(),
		etcd:       etcdPort,
	}
}

func (t *layout) add(p Process) *Process {
	p.Log = filepath.Join(t.dir, "logs", p.Name+".log")
	t.processes = append(t.processes, &p)
	return &p
}

func (t *layout) addArg(extra ComponentArg) error {
	found := false
	for _, p := range t.processes {
		if p.Name == extra.Component || p.Program == extra.Component {
			// If a flag is repeated, the last one wins.
			p.Args = append(p.Args, extra.Arg)
			found = true
		}
	}
	if !found {
		names := make([]string, len(t.processes))
		for i, p := range t.processes {
			names[i] = p.Name
		}
		return fmt.Errorf("component argument %s=%s: no component has that name; the processes are %s", extra.Component, extra.Arg, strings.Join(names, ", "))
	}
	return nil
}

// etcd holds the data of all control planes, each under its own prefix. Without
// fsync, it loses data only if the machine crashes.
func (t *layout) etcd() *Process {
	client, peer, metrics := t.nextPort(), t.nextPort(), t.nextPort()
	return t.add(Process{
		Name: programEtcd, Group: programEtcd, Program: programEtcd,
		Port: client, OtherPorts: []int{peer, metrics},
		ReadyURL: httpURL(metrics, "/readyz"),
		Args: []string{
			"--name=fleet",
			"--data-dir=" + filepath.Join(t.dir, "etcd"),
			"--unsafe-no-fsync",
			"--listen-client-urls=" + httpURL(client, ""),
			"--advertise-client-urls=" + httpURL(client, ""),
			"--listen-peer-urls=" + httpURL(peer, ""),
			"--initial-advertise-peer-urls=" + httpURL(peer, ""),
			"--initial-cluster=fleet=" + httpURL(peer, ""),
			"--listen-metrics-urls=" + httpURL(metrics, ""),
			"--log-level=warn",
		},
	})
}

// member adds a cluster that Karmada manages.
func (t *layout) member(m Member, p plane) {
	t.cluster(p)
	if m.Mode == Pull {
		t.agent(p)
	}
}

// cluster adds a whole Kubernetes cluster, with kwok in place of kubelets.
func (t *layout) cluster(p plane) {
	t.apiServer(p)
	t.kubeControllerManager(p, "--controllers=*")

	port := t.nextPort()
	t.add(Process{
		Name: p.name + "-" + programKubeScheduler, Group: p.name, Program: programKubeScheduler,
		Port:     port,
		ReadyURL: httpsURL(port, "/readyz"), CAFile: p.file("ca.crt"),
		Needs: []string{p.apiServer()},
		Args:  kubeComponentArgs(p, port),
	})
	port = t.nextPort()
	t.add(Process{
		Name: p.name + "-" + programKwok, Group: p.name, Program: programKwok,
		Port:     port,
		ReadyURL: httpURL(port, "/healthz"),
		Needs:    []string{p.apiServer()},
		Args: []string{
			"--kubeconfig=" + p.kubeconfig,
			"--manage-all-nodes=true",
			"--node-lease-duration-seconds=40",
			"--node-ip=" + loopback,
			"--server-address=" + address(port),
		},
	})
}

// argoCD adds the parts of Argo CD that turn Git content into objects. The API
// server and user interface are left out because nothing uses them.
func (t *layout) argoCD(host plane) {
	redis := t.add(Process{
		Name: groupArgoCD + "-" + programRedis, Group: groupArgoCD, Program: programRedis,
		Port: t.nextPort(),
	})
	redis.ReadyURL = "redis://" + address(redis.Port)
	redis.Args = []string{"--bind", loopback, "--port", strconv.Itoa(redis.Port), "--save", "", "--appendonly", "no"}

	port, metrics := t.nextPort(), t.nextPort()
	repoServer := t.add(Process{
		Name: programArgoCDRepoServer, Group: groupArgoCD, Program: programArgoCDRepoServer,
		Port: port, OtherPorts: []int{metrics},
		ReadyURL: httpURL(metrics, "/healthz?full=true"),
		Needs:    []string{redis.Name},
		Args: []string{
			"--address=" + loopback,
			"--port=" + strconv.Itoa(port),
			"--metrics-address=" + loopback,
			"--metrics-port=" + strconv.Itoa(metrics),
			"--redis=" + address(redis.Port),
			"--disable-tls",
			"--logformat=text",
		},
		// GPG needs folders that only Argo CD's image has. The path of a socket must be
		// short, so this one is relative to the fleet's folder.
		Env: []string{"ARGOCD_GPG_ENABLED=false", "ARGOCD_ASK_PASS_SOCK=ask-pass.sock"},
	})
	t.argoCDController(host, redis, repoServer)
}

// argoCDController adds the controller that deploys. It gets manifests from the repo
// server.
func (t *layout) argoCDController(host plane, redis, repoServer *Process) {
	metrics := t.nextPort()
	t.add(Process{
		Name: programArgoCDController, Group: groupArgoCD, Program: programArgoCDController,
		Port:     metrics,
		ReadyURL: httpURL(metrics, "/healthz"),
		Needs:    []string{host.apiServer(), redis.Name, repoServer.Name, stepArgoCD},
		Args: []string{
			"--kubeconfig=" + host.kubeconfig,
			"--namespace=" + argoCDNamespace,
			"--metrics-port=" + strconv.Itoa(metrics),
			"--repo-server=" + address(repoServer.Port),
			"--repo-server-plaintext",
			"--redis=" + address(redis.Port),
			// Put the health of resources into the Application; there is no user interface to
			// show it.
			"--persist-resource-health",
			"--logformat=text",
		},
	})
}

func (t *layout) apiServer(p plane, extra ...string) {
	t.add(Process{
		Name: p.apiServer(), Group: p.name, Program: programKubeAPIServer,
		Port:     p.port,
		ReadyURL: httpsURL(p.port, "/readyz"), CAFile: p.file("ca.crt"),
		Needs: []string{programEtcd},
		Args: append([]string{
			"--etcd-servers=" + httpURL(p.etcd, ""),
			"--etcd-prefix=/" + p.name,
			"--bind-address=" + loopback,
			"--secure-port=" + strconv.Itoa(p.port),
			// A loopback address is not a valid endpoint of the kubernetes Service, and no
			// Pod ever connects to it.
			"--endpoint-reconciler-type=none",
			"--authorization-mode=Node,RBAC",
			"--allow-privileged=true",
			"--service-cluster-ip-range=10.96.0.0/12",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + p.file("service-account.pub"),
			"--service-account-signing-key-file=" + p.file("service-account.key"),
			"--client-ca-file=" + p.file("ca.crt"),
			"--tls-cert-file=" + p.file("server.crt"),
			"--tls-private-key-file=" + p.file("server.key"),
		}, extra...),
	})
}

func (t *layout) kubeControllerManager(p plane, extra ...string) {
	port := t.nextPort()
	t.add(Process{
		Name: p.controllerManager(), Group: p.name, Program: programKubeControllerManager,
		Port:     port,
		ReadyURL: httpsURL(port, "/healthz"), CAFile: p.file("ca.crt"),
		Needs: []string{p.apiServer()},
		Args: append(append(kubeComponentArgs(p, port),
			"--root-ca-file="+p.file("ca.crt"),
			"--service-account-private-key-file="+p.file("service-account.key"),
			"--cluster-signing-cert-file="+p.file("ca.crt"),
			"--cluster-signing-key-file="+p.file("ca.key"),
		), extra...),
	})
}

// kubeComponentArgs returns the arguments that kube-controller-manager and
// kube-scheduler share. Leader election is off everywhere in a fleet: each component
// runs once, and the lease of a killed process would delay its next start.
func kubeComponentArgs(p plane, port int) []string {
	return []string{
		"--kubeconfig=" + p.kubeconfig,
		"--authentication-kubeconfig=" + p.kubeconfig,
		"--authorization-kubeconfig=" + p.kubeconfig,
		"--leader-elect=false",
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + p.file("server.crt"),
		"--tls-private-key-file=" + p.file("server.key"),
	}
}

// kubeconfigPath returns the path of the admin kubeconfig of a control plane.
func kubeconfigPath(dir, name string) string { return filepath.Join(dir, name+".kubeconfig") }

func agentOf(member string) string { return member + "-" + programKarmadaAgent }

// selectProcesses returns the processes with the given names or groups.
func selectProcesses(processes []*Process, names []string) ([]*Process, error) {
	var selected []*Process
	for _, name := range names {
		found := false
		for _, p := range processes {
			if p.Name != name && p.Group != name {
				continue
			}
			found = true
			if !slices.Contains(selected, p) {
				selected = append(selected, p)
			}
		}
		if !found {
			return nil, fmt.Errorf("no process or member has the name %q; `fleet status` lists them", name)
		}
	}
	return selected, nil
}
