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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// results is everything that was measured, and the machine of the last run.
type results struct {
	Machine  string    `json:"machine"`
	Versions string    `json:"versions"`
	Runs     []caseRun `json:"runs"`
	Samples  []*sample `json:"samples"`
	Figures  []figure  `json:"figures"`
	Checks   []check   `json:"checks"`

	commit string
}

// caseRun identifies the run that produced the results of a case.
type caseRun struct {
	Case   string `json:"case"`
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Rounds int    `json:"rounds"`
	Short  bool   `json:"short,omitempty"`
}

// figure is a measured number.
type figure struct {
	Case  string  `json:"case"`
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// check is a target and whether it was reached.
type check struct {
	Case  string `json:"case"`
	What  string `json:"what"`
	Got   string `json:"got"`
	Want  string `json:"want"`
	Holds bool   `json:"holds"`
	// Times is how often the target was checked.
	Times int `json:"times"`
}

func newResults(ctx context.Context, o *options, root string) (*results, error) {
	commit, err := exec.CommandContext(ctx, "git", "-C", root, "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return nil, fmt.Errorf("reading the commit: %w", err)
	}
	r := &results{commit: strings.TrimSpace(string(commit))}
	if raw, err := os.ReadFile(filepath.Join(o.out, "results.json")); err == nil && o.out != "" {
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, fmt.Errorf("reading the results of an earlier run: %w", err)
		}
	}
	said := []string{runtime.Version()}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		switch module.Path {
		case "github.com/karmada-io/karmada":
			said = append(said, "Karmada "+module.Version)
		case "k8s.io/client-go":
			said = append(said, "Kubernetes libraries "+module.Version)
		}
	}
	r.Versions = strings.Join(said, ", ")
	r.Machine = fmt.Sprintf("%d cores (%s), %s/%s", runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH)
	return r, nil
}

// begin removes the results of an earlier run of a case.
func (r *results) begin(name string, o *options) {
	r.Runs = slices.DeleteFunc(r.Runs, func(known caseRun) bool { return known.Case == name })
	r.Samples = slices.DeleteFunc(r.Samples, func(s *sample) bool { return s.Case == name })
	r.Figures = slices.DeleteFunc(r.Figures, func(f figure) bool { return f.Case == name })
	r.Checks = slices.DeleteFunc(r.Checks, func(c check) bool { return c.Case == name })
	r.Runs = append(r.Runs, caseRun{Case: name, Date: time.Now().UTC().Format(time.DateTime), Commit: r.commit, Rounds: o.rounds, Short: o.short})
}

// processor returns the name of the machine's processor.
func processor() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.SplitSeq(string(raw), "\n") {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func (r *results) add(s *sample) { r.Samples = append(r.Samples, s) }

// check records the check of a target. A missed target stays missed, even if it is
// reached later.
func (r *results) check(c check) {
	i := slices.IndexFunc(r.Checks, func(known check) bool { return known.Case == c.Case && known.What == c.What })
	if i < 0 {
		c.Times = 1
		r.Checks = append(r.Checks, c)
		return
	}
	r.Checks[i].Times++
	if !c.Holds && r.Checks[i].Holds {
		c.Times = r.Checks[i].Times
		r.Checks[i] = c
	}
}

func (r *results) figure(name, what string, value float64, unit string) {
	r.Figures = append(r.Figures, figure{Case: name, What: what, Value: value, Unit: unit})
}

// atLeast checks that a number reaches a lower bound.
func (r *results) atLeast(name, what string, got, bound float64) {
	r.check(check{Case: name, What: what, Got: fmt.Sprintf("%.2f", got), Want: fmt.Sprintf("≥ %g", bound), Holds: got >= bound})
}

func (r *results) atMost(name, what string, got, bound float64) {
	r.check(check{Case: name, What: what, Got: fmt.Sprintf("%.2f", got), Want: fmt.Sprintf("≤ %g", bound), Holds: got <= bound})
}

// median returns the median, the least and the most of a number over the rounds of a
// phase, and the number of rounds.
func (r *results) median(race, contender string, p phase, number func(*sample) float64) (median, least, most float64, rounds int) {
	values := []float64{}
	for _, s := range r.Samples {
		if s.Race == race && s.Contender == contender && s.Phase == p {
			values = append(values, number(s))
		}
	}
	if len(values) == 0 {
		return 0, 0, 0, 0
	}
	slices.Sort(values)
	middle := len(values) / 2
	median = values[middle]
	if len(values)%2 == 0 {
		median = (values[middle-1] + values[middle]) / 2
	}
	return median, values[0], values[len(values)-1], len(values)
}

// ratio compares how many Works two contenders create per second.
func (r *results) ratio(race, contender, other string) float64 {
	return r.ratioOf(race, phaseCreate, contender, other, (*sample).perSecond)
}

// ratioOf compares a number of two contenders; 0 if it is not known.
func (r *results) ratioOf(race string, p phase, contender, other string, number func(*sample) float64) float64 {
	ours, _, _, _ := r.median(race, contender, p, number)
	theirs, _, _, _ := r.median(race, other, p, number)
	if theirs == 0 {
		return 0
	}
	return ours / theirs
}

// save writes the results if there is a folder for them.
func (r *results) save(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("creating the folder of the results: %w", err)
	}
	slices.SortStableFunc(r.Runs, func(a, b caseRun) int { return strings.Compare(a.Case, b.Case) })
	slices.SortStableFunc(r.Samples, func(a, b *sample) int { return strings.Compare(a.Case, b.Case) })
	slices.SortStableFunc(r.Figures, func(a, b figure) int { return strings.Compare(a.Case, b.Case) })
	slices.SortStableFunc(r.Checks, func(a, b check) int { return strings.Compare(a.Case, b.Case) })
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "results.json"), append(content, '\n'), 0o644),
		os.WriteFile(filepath.Join(folder, "README.md"), []byte(r.markdown()), 0o644),
	)
}

// verdict returns an error if a target was missed.
func (r *results) verdict() error {
	missed := []error{}
	for _, c := range r.Checks {
		if !c.Holds {
			missed = append(missed, fmt.Errorf("case (%s): %s: %s, want %s", c.Case, c.What, c.Got, c.Want))
		}
	}
	return errors.Join(missed...)
}

// groups returns the distinct races, phases and contenders, in the order of the
// cases.
func (r *results) groups() []*sample {
	groups := []*sample{}
	for _, s := range r.Samples {
		known := func(g *sample) bool { return g.Race == s.Race && g.Phase == s.Phase && g.Contender == s.Contender }
		if !slices.ContainsFunc(groups, known) {
			groups = append(groups, s)
		}
	}
	rank := func(s *sample) int {
		return slices.Index([]string{nameBare, nameDirect, nameOther, namePolicy}, s.Contender)
	}
	order := map[phase]int{phaseCreate: 0, phaseUpdate: 1, phaseDelete: 2}
	first := map[string]int{}
	for i, s := range groups {
		if _, known := first[s.Race]; !known {
			first[s.Race] = i
		}
	}
	slices.SortStableFunc(groups, func(a, b *sample) int {
		return cmp.Or(cmp.Compare(first[a.Race], first[b.Race]), cmp.Compare(order[a.Phase], order[b.Phase]), cmp.Compare(rank(a), rank(b)))
	})
	return groups
}
