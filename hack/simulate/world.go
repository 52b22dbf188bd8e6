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

package simulate

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/apis"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

const (
	// theController and theUsers are the names of clients of the API server.
	theController = "controller"
	theUsers      = "users"
	theKarmada    = "karmada"

	// discoveryLag is how late discovery shows that a kind has changed.
	discoveryLag = 800 * time.Millisecond

	// agony is how long a replica that is killed may take to notice: its requests have
	// failed, but its goroutines have to end before the bubble does.
	agony = time.Minute
)

// World is a Karmada with its members, with the controller and with users.
type World struct {
	choices *choices
	habits  habits
	server  *apiserver.Server
	karmada *karmada.Karmada
	// plane is the API server as users see it.
	plane client.Client
	// replicas are the processes of the controller that run: one, or a pair of which one
	// leads. started counts all.
	replicas []*replica
	pair     bool
	started  int
	// late are requests that take effect although the controller believes they failed.
	late []*lateCall
	// dead are the replicas that have ended or crashed.
	dead  []*replica
	users *users
	truth *truth

	// broken are the members on which no Pods become available.
	broken map[string]bool
	// outages are what the controller cannot do with kinds.
	outages map[schema.GroupResource]*outage

	// arrived is when writes that wait were sent, serving the one that takes effect now.
	// busy are those that the controller was told to send again.
	arrived map[*apiserver.Call]int
	serving *apiserver.Call
	busy    map[string]bool

	// death is how a process of the controller dies in the middle of a write; nil if none
	// is to.
	death *death

	// revisions counts the writes to each resource, and under no name all of them.
	revisions map[string]int64

	// outdated is the version that lists of objects show; 0 for the newest.
	outdated int64

	// noWebhook: Karmada's webhook for Works does not answer.
	noWebhook bool
	// noStatus: the controller may not write the status of Deployments.
	noStatus bool

	began time.Time
	steps int
	story []line
}

// newWorld returns a World in which all clusters have joined.
func newWorld(ctx context.Context, choices *choices) (*World, error) {
	w := &World{choices: choices, habits: chooseHabits(choices), began: time.Now(), revisions: map[string]int64{}, busy: map[string]bool{}, broken: map[string]bool{}, outages: map[schema.GroupResource]*outage{}}
	crds, err := apis.CRDs()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it did
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	works := 0
	w.server, err = apiserver.New(apiserver.Options{
		Now: time.Now, DiscoveryLag: discoveryLag, PromptEvents: true, Scheme: scheme, CRDs: crds, Kinds: append(apiserver.BuiltinKinds(), w.karmadaKinds()...),
		Mutate: func(write apiserver.Write) error { return w.admitWork(write, &works) }, Admit: w.admitDeletion,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the API server: %w", err)
	}
	if w.plane, err = w.server.Client(theUsers); err != nil {
		return nil, fmt.Errorf("creating the client of the users: %w", err)
	}
	karmadas, err := w.server.Client(theKarmada)
	if err != nil {
		return nil, fmt.Errorf("creating the client of Karmada: %w", err)
	}
	w.karmada = karmada.New(karmadas, karmada.Options{
		Now: time.Now, Revision: func(resource string) int64 { return w.revisions[resource] }, Finalize: func(_ context.Context, _ client.Client, space *corev1.Namespace) error {
			_, err := w.server.FinishNamespace(space.Name)
			return err //nolint:wrapcheck // the simulated Karmada shows it
		},
	})
	w.truth = newTruth(w)
	w.server.Observe(func(write apiserver.Write) {
		w.revisions[write.Resource]++
		w.revisions[""]++
		w.truth.wrote(write)
	})
	w.users = newUsers(w)
	if err := w.populate(ctx); err != nil {
		return nil, err
	}
	return w, w.startReplicas(ctx)
}

// populate creates the namespaces, and has all clusters join.
func (w *World) populate(ctx context.Context) error {
	for _, namespace := range []string{"shop", "karmada-system", "karmada-cluster"} {
		if err := w.plane.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return fmt.Errorf("creating a namespace: %w", err)
		}
	}
	for _, name := range memberNames {
		w.addMember(name)
		if err := w.plane.Create(ctx, newCluster(name)); err != nil {
			return fmt.Errorf("joining %s: %w", name, err)
		}
	}
	return nil
}

// karmadaKinds are the kinds of Karmada that its API server serves.
func (w *World) karmadaKinds() []apiserver.Kind {
	kind := func(group, version, name, plural string, namespaced bool) apiserver.Kind {
		return apiserver.Kind{Group: group, Versions: []string{version}, Kind: name, Plural: plural, Namespaced: namespaced, Status: true, Generation: true}
	}
	return []apiserver.Kind{
		kind("cluster.karmada.io", "v1alpha1", "Cluster", "clusters", false),
		kind("work.karmada.io", "v1alpha1", "Work", "works", true),
		kind("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings", true),
		kind("work.karmada.io", "v1alpha2", "ClusterResourceBinding", "clusterresourcebindings", false),
		kind("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies", true),
		kind("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies", true),
		kind("policy.karmada.io", "v1alpha1", "ClusterOverridePolicy", "clusteroverridepolicies", false),
		kind("config.karmada.io", "v1alpha1", "ResourceInterpreterCustomization", "resourceinterpretercustomizations", false),
		kind("config.karmada.io", "v1alpha1", "ResourceInterpreterWebhookConfiguration", "resourceinterpreterwebhookconfigurations", false),
		kind(toyKind.Group, toyKind.Version, toyKind.Kind, toyKind.Plural, true),
		{
			Group: authorizationv1.GroupName, Versions: []string{"v1"}, Kind: "SubjectAccessReview", Plural: "subjectaccessreviews",
			Answer: func(_ string, review *unstructured.Unstructured) error { return w.users.review(review) },
		},
	}
}

// admitWork does what Karmada's webhook does with Works.
func (w *World) admitWork(write apiserver.Write, works *int) error {
	if write.Resource != "works" {
		return nil
	}
	if w.noWebhook {
		return apierrors.NewInternalError(errNoWebhook)
	}
	if isController(write.Client) && write.Subresource == "" && w.users.refused[clusterOf(write.After.GetNamespace())] {
		return apierrors.NewForbidden(schema.GroupResource{Group: workv1alpha1.GroupName, Resource: "works"}, write.After.GetName(), errDenied)
	}
	work := &workv1alpha1.Work{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(write.After.Object, work); err != nil {
		return fmt.Errorf("reading a Work: %w", err)
	}
	if isController(write.Client) && w.users.altered[clusterOf(work.Namespace)] {
		if err := alter(work); err != nil {
			return err
		}
	}
	*works++
	if err := karmada.Admit(work, fmt.Sprintf("00000000-0000-4000-8000-%012d", *works)); err != nil {
		return err //nolint:wrapcheck // it says what it did
	}
	admitted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(work)
	if err != nil {
		return fmt.Errorf("writing a Work: %w", err)
	}
	write.After.Object = admitted
	return nil
}

// line is a line of the story.
type line struct {
	at   time.Duration
	text string
	// detail marks what mostly does not matter, such as reads.
	detail bool
}

func (l line) String() string { return fmt.Sprintf("%9.3fs  %s", l.at.Seconds(), l.text) }

// tell adds a line to the story.
func (w *World) tell(format string, arguments ...any) { w.add(false, format, arguments...) }

// mention adds a detail to the story.
func (w *World) mention(format string, arguments ...any) { w.add(true, format, arguments...) }

func (w *World) add(detail bool, format string, arguments ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, arguments...), "\n", " ")
	w.story = append(w.story, line{at: time.Since(w.began), text: text, detail: detail})
}
