//go:build integration

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

package propagation

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// badLinks are how the connections of the controller to the API server fail.
var badLinks = []struct {
	name  string
	state testbed.LinkState
	// forgotten connections never carry anything again.
	forgotten bool
	lasts     time.Duration
}{
	{name: "slow", state: testbed.LinkState{Delay: 200 * time.Millisecond, Jitter: 100 * time.Millisecond}, lasts: 8 * time.Second},
	{name: "lossy", state: testbed.LinkState{Delay: 20 * time.Millisecond, Loss: 0.05}, lasts: 8 * time.Second},
	{name: "narrow", state: testbed.LinkState{BytesPerSecond: 64 << 10}, lasts: 8 * time.Second},
	{name: "cut", state: testbed.LinkState{CutAfter: 5000}, lasts: 8 * time.Second},
	{name: "silent", state: testbed.LinkState{Silent: true}, lasts: 20 * time.Second},
	{name: "forgotten", forgotten: true, lasts: time.Minute},
}

// The connections of the controller are slow, lose packets, are narrow, are cut in the
// middle of responses, or nothing arrives anymore and nobody is told. Meanwhile, users
// change what is propagated. In the end, each object is Ready with the last content. No
// row is True before Karmada has confirmed the revision.
func TestControllerBehindABadLink(t *testing.T) {
	var link *testbed.Link
	confirmed := &confirmations{first: map[string]uint64{}, said: map[string]uint64{}}
	p := newPlaneBehind(t, func(p *plane, config *rest.Config) {
		link, p.onConfirm = behindLink(t, config), confirmed.confirms
	})
	p.mayPropagate("", "configmaps", readingVerbs...)
	confirmed.watches(t, p)
	const objects = 10
	for i := range objects {
		p.has(configMap(i, "0"))
		p.propagates("v1", "ConfigMap", configMap(i, "").Name)
	}
	for i := range objects {
		p.arrives(configMap(i, "0"))
	}
	for _, bad := range badLinks {
		t.Run(bad.name, func(t *testing.T) {
			p := &plane{Client: p.Client, t: t, config: p.config}
			link.Becomes(bad.state)
			defer link.Becomes(testbed.LinkState{})
			if bad.forgotten {
				link.Forgets()
			}
			last := p.keepsChanging(objects, bad.name, bad.lasts)
			link.Becomes(testbed.LinkState{})
			ended := time.Now()
			for i := range objects {
				p.arrives(configMap(i, last))
			}
			t.Logf("everything is right %v after the link works again", time.Since(ended).Round(time.Millisecond))
		})
	}
	if link.Cut() == 0 {
		t.Error("no connection was cut, so the test proves nothing")
	}
	confirmed.holds(t)
}

// behindLink puts a link between a client and its server.
func behindLink(t *testing.T, config *rest.Config) *testbed.Link {
	t.Helper()
	host := config.Host
	if server, err := url.Parse(host); err == nil && server.Host != "" {
		host = server.Host
	}
	link, err := testbed.NewLink(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	config.Host = "https://" + link.Address()
	return link
}

func configMap(i int, says string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("settings-%d", i)},
		Data:       map[string]string{"says": says},
	}
}

// keepsChanging changes all ConfigMaps in turn for a while, and returns the last content.
func (p *plane) keepsChanging(objects int, name string, lasts time.Duration) (last string) {
	p.t.Helper()
	const rounds = 20
	pace := time.NewTicker(lasts / rounds)
	defer pace.Stop()
	for round := range rounds {
		last = fmt.Sprintf("%s %d", name, round)
		for i := range objects {
			if err := p.Update(p.t.Context(), configMap(i, last)); err != nil {
				p.t.Fatal(err)
			}
		}
		<-pace.C
	}
	return last
}

// arrives waits until the object of a ConfigMap is Ready with its content.
func (p *plane) arrives(want *corev1.ConfigMap) {
	p.t.Helper()
	p.eventually(want.Name+" arrives", func(ctx context.Context) error {
		object, work := &propagationv1alpha1.DirectPropagation{}, &workv1alpha1.Work{}
		if err := p.Get(ctx, client.ObjectKeyFromObject(want), object); err != nil {
			return err
		}
		works := &workv1alpha1.WorkList{}
		if err := p.List(ctx, works, client.InNamespace("karmada-es-member1")); err != nil {
			return err
		}
		for i := range works.Items {
			if works.Items[i].Annotations[propagationv1alpha1.OwnerNameAnnotation] == want.Name {
				work = &works.Items[i]
			}
		}
		if len(work.Spec.Workload.Manifests) == 0 || !strings.Contains(string(work.Spec.Workload.Manifests[0].Raw), fmt.Sprintf("%q", want.Data["says"])) {
			return fmt.Errorf("the Work does not contain %q", want.Data["says"])
		}
		if !meta.IsStatusConditionTrue(object.Status.Conditions, propagationv1alpha1.ConditionReady) ||
			object.Status.Clusters[0].Revision != work.Annotations[propagationv1alpha1.RevisionAnnotation] {
			return fmt.Errorf("its status is %+v", object.Status)
		}
		return nil
	})
}

// confirmations records what Karmada has confirmed, and what rows say.
type confirmations struct {
	mu sync.Mutex
	// first is the resource version at which a revision was confirmed first.
	first map[string]uint64
	// said is the resource version at which a row was True for a revision first.
	said map[string]uint64
}

// confirms records that Karmada has confirmed a Work.
func (c *confirmations) confirms(work *workv1alpha1.Work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note(c.first, work.Annotations[propagationv1alpha1.RevisionAnnotation], work.ResourceVersion)
}

// watches records what rows say.
func (c *confirmations) watches(t *testing.T, p *plane) {
	t.Helper()
	watching, err := client.NewWithWatch(p.config, client.Options{Scheme: integrationScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	events, err := watching.Watch(t.Context(), &propagationv1alpha1.DirectPropagationList{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for event := range events.ResultChan() {
			if object, ok := event.Object.(*propagationv1alpha1.DirectPropagation); ok {
				c.says(object)
			}
		}
	}()
}

func (c *confirmations) says(object *propagationv1alpha1.DirectPropagation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, row := range object.Status.Clusters {
		if row.Applied == metav1.ConditionTrue {
			note(c.said, row.Revision, object.ResourceVersion)
		}
	}
}

// note remembers the first version.
func note(of map[string]uint64, revision, version string) {
	at, _ := strconv.ParseUint(version, 10, 64) // an API server of Kubernetes counts
	if _, known := of[revision]; !known {
		of[revision] = at
	}
}

// holds fails the test if a row was True for a revision before that was confirmed.
func (c *confirmations) holds(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for revision, said := range c.said {
		if confirmed, is := c.first[revision]; !is || confirmed > said {
			t.Errorf("a row was True for revision %s at resource version %d, which was confirmed at %d", revision, said, confirmed)
		}
	}
	if len(c.said) < len(badLinks) {
		t.Errorf("rows were True for %d revisions only, so the test proves little", len(c.said))
	}
	t.Logf("rows were True for %d revisions", len(c.said))
}
