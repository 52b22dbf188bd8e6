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
	"strconv"
)

// karmada adds the control plane that a user would install: an API server, Karmada's
// own servers, and the few Kubernetes controllers that Karmada requires.
func (t *layout) karmada(p plane) {
	t.apiServer(p,
		"--disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount",
		"--requestheader-client-ca-file="+p.file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file="+p.file("front-proxy-client.crt"),
		"--proxy-client-key-file="+p.file("front-proxy-client.key"),
	)
	t.kubeControllerManager(p, "--controllers=namespace,garbagecollector,serviceaccount-token,ttl-after-finished,clusterrole-aggregation")
	t.aggregatedAPIServer(p)

	t.karmadaController(p, programKarmadaControllerManager)
	t.karmadaController(p, programKarmadaScheduler)
	t.webhook(p)
}

// karmadaController adds a Karmada server that only watches the API. The cluster API
// must be ready first, because a failed watch is retried only after many seconds.
func (t *layout) karmadaController(p plane, program string) {
	health, metrics := t.nextPort(), t.nextPort()
	t.add(Process{
		Name: program, Group: p.name, Program: program,
		Port: health, OtherPorts: []int{metrics},
		ReadyURL: httpURL(health, "/healthz"),
		Needs:    []string{p.apiServer(), programKarmadaAggregated, stepCRDs, stepClusterAPI},
		Args: []string{
			"--kubeconfig=" + p.kubeconfig,
			"--leader-elect=false",
			"--health-probe-bind-address=" + address(health),
			"--metrics-bind-address=" + address(metrics),
		},
	})
}

// webhook adds the webhook that defaults and validates policies and Works.
func (t *layout) webhook(p plane) {
	serving, health, metrics := t.nextPort(), t.nextPort(), t.nextPort()
	t.add(Process{
		Name: programKarmadaWebhook, Group: p.name, Program: programKarmadaWebhook,
		Port: serving, OtherPorts: []int{health, metrics},
		ReadyURL: httpsURL(serving, "/readyz/"), CAFile: p.file("ca.crt"),
		Needs: []string{p.apiServer(), stepCRDs, stepClusterAPI},
		Args: []string{
			"--kubeconfig=" + p.kubeconfig,
			"--bind-address=" + loopback,
			"--secure-port=" + strconv.Itoa(serving),
			"--cert-dir=" + p.pki,
			"--tls-cert-file-name=server.crt",
			"--tls-private-key-file-name=server.key",
			"--health-probe-bind-address=" + address(health),
			"--metrics-bind-address=" + address(metrics),
		},
	})
}

// aggregatedAPIServer adds the server of cluster.karmada.io behind the API server.
func (t *layout) aggregatedAPIServer(p plane) {
	port := t.nextPort()
	t.add(Process{
		Name: programKarmadaAggregated, Group: p.name, Program: programKarmadaAggregated,
		Port:     port,
		ReadyURL: httpsURL(port, "/readyz"), CAFile: p.file("ca.crt"),
		Needs: []string{p.apiServer()},
		Args: []string{
			"--kubeconfig=" + p.kubeconfig,
			"--authentication-kubeconfig=" + p.kubeconfig,
			"--authorization-kubeconfig=" + p.kubeconfig,
			"--etcd-servers=" + httpURL(p.etcd, ""),
			"--etcd-prefix=/" + p.name,
			"--bind-address=" + loopback,
			"--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + p.file("server.crt"),
			"--tls-private-key-file=" + p.file("server.key"),
			"--audit-log-path=",
		},
	})
}

// agent adds the agent that registers its member with Karmada and applies Works
// there.
func (t *layout) agent(p plane) {
	health, metrics := t.nextPort(), t.nextPort()
	t.add(Process{
		Name: agentOf(p.name), Group: p.name, Program: programKarmadaAgent,
		Port: health, OtherPorts: []int{metrics},
		ReadyURL: httpURL(health, "/healthz"),
		Needs:    []string{p.apiServer(), p.controllerManager(), karmadaContext, programKarmadaAggregated, stepCRDs, stepClusterAPI},
		Args: []string{
			"--karmada-kubeconfig=" + kubeconfigPath(t.dir, groupKarmada),
			"--karmada-context=" + karmadaContext,
			"--kubeconfig=" + p.kubeconfig,
			"--cluster-name=" + p.name,
			"--cluster-api-endpoint=" + httpsURL(p.port, ""),
			"--leader-elect=false",
			"--health-probe-bind-address=" + address(health),
			"--metrics-bind-address=" + address(metrics),
		},
	})
}
