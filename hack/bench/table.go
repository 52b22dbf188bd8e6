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
	"maps"
	"slices"
	"strings"
)

const preface = `# Benchmarks

Written by %[1]smake bench%[1]s, or by hack/bench with flags for fewer rounds or smaller sizes. Do not edit this page. [The log](log.md)
is written by hand.

%[2]s; %[3]s. Everything runs on this one machine: etcd, the API servers of the
control plane and of two members, Karmada with its webhook, the controllers, and
the benchmark itself. They compete for the same cores. Compare the lines of a
table with each other, not with figures from another machine.

- **bare limit**: a plain client that makes the same writes with the same
  concurrency, and does nothing else. For an update, it writes only the Works.
- **DirectPropagation**: the controller as it is shipped.
- **PropagationPolicy**: one policy for all resources of the load.
- All contenders of a load run next to the same Karmada, which applies Works on
  the same cores: with its default flags, or with raised limits (5,000 requests a
  second, 50 workers). In rows with "nobody applies", Karmada does not run.
- A time ends when a watch of metadata shows the last Work written (for a
  deletion: marked for deletion). p50 and p99 are over objects, and each object's
  time starts when its user sends the write. The whole load is sent at once.
`

// markdown returns the results as a page.
func (r *results) markdown() string {
	out := &strings.Builder{}
	fmt.Fprintf(out, preface, "`", r.Machine, r.Versions)
	fmt.Fprint(out, "\n| case | measured | commit | rounds | sizes |\n|---|---|---|---|---|\n")
	for _, run := range r.Runs {
		sizes := "full"
		if run.Short {
			sizes = "short"
		}
		fmt.Fprintf(out, "| %s | %s UTC | %s | %d | %s |\n", run.Case, run.Date, run.Commit, run.Rounds, sizes)
	}
	r.writePictures(out)
	r.writeChecks(out)
	r.writeRaces(out)
	r.writeArrivals(out)
	r.writeCosts(out)
	r.writeTraffic(out)
	if len(r.Figures) > 0 {
		fmt.Fprint(out, "\n## Figures\n\n| case | measured | value |\n|---|---|---|\n")
		for _, f := range r.Figures {
			fmt.Fprintf(out, "| %s | %s | %s %s |\n", f.Case, f.What, number(f.Value), f.Unit)
		}
	}
	return out.String()
}

// writePictures shows the pictures that hack/tools/plot draws.
func (r *results) writePictures(out *strings.Builder) {
	isGrowth := func(s *sample) bool { return s.Case == "g" }
	if slices.ContainsFunc(r.Samples, func(s *sample) bool { return !isGrowth(s) }) {
		fmt.Fprint(out, "\n![Works a second](throughput.svg)\n")
	}
	if slices.ContainsFunc(r.Samples, isGrowth) {
		fmt.Fprint(out, "\n![Growth](growth.svg)\n")
	}
}

func (r *results) writeChecks(out *strings.Builder) {
	fmt.Fprint(out, "\n## Targets\n\n| case | check | measured | target | times | |\n|---|---|---|---|---|---|\n")
	for _, c := range r.Checks {
		verdict := "reached"
		if !c.Holds {
			verdict = "**missed**"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %d | %s |\n", c.Case, c.What, c.Got, c.Want, c.Times, verdict)
	}
}

// writeRaces shows times as medians over rounds, with the least and the most.
func (r *results) writeRaces(out *strings.Builder) {
	groups := r.groups()
	if len(groups) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Times\n\nMedian over rounds (least to most).\n\n")
	fmt.Fprint(out, "| case | load | phase | by | rounds | seconds | Works/s | p50 s | p99 s | all Ready, s |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, g := range groups {
		take := func(number func(*sample) float64) (median, least, most float64) {
			median, least, most, _ = r.median(g.Race, g.Contender, g.Phase, number)
			return median, least, most
		}
		seconds, shortest, longest := take(func(s *sample) float64 { return s.Seconds })
		rate, slowest, fastest := take((*sample).perSecond)
		p50, _, _ := take(func(s *sample) float64 { return s.P50 })
		p99, _, _ := take(func(s *sample) float64 { return s.P99 })
		confirmed, _, _ := take(func(s *sample) float64 { return s.Confirmed })
		_, _, _, rounds := r.median(g.Race, g.Contender, g.Phase, (*sample).perSecond)
		ready := ""
		if confirmed > 0 {
			ready = fmt.Sprintf("%.2f", confirmed)
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %d | %.2f (%.2f to %.2f) | **%.0f** (%.0f to %.0f) | %.2f | %.2f | %s |\n",
			g.Case, g.Race, g.Phase, g.Contender, rounds, seconds, shortest, longest, rate, slowest, fastest, p50, p99, ready)
	}
}

// writeArrivals shows when the members had a load, and when its users knew that.
func (r *results) writeArrivals(out *strings.Builder) {
	groups := slices.DeleteFunc(r.groups(), func(g *sample) bool { return g.Arrival == nil })
	if len(groups) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Until the members have it, and the user knows\n\n"+
		"Seconds from the user's write, median over rounds. The user of a DirectPropagation knows it from its rows, the\n"+
		"user of a policy from the observedGeneration of the resource, if the kind has one. \"Early\" counts the objects\n"+
		"whose rows, or whose ResourceBinding, say that everything is applied 100 ms before the last member has it.\n\n"+
		"| case | load | phase | by | members, p50 | members, p99 | user, p50 | user, p99 | early |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, g := range groups {
		take := func(number func(*arrival) float64) string {
			median, _, _, _ := r.median(g.Race, g.Contender, g.Phase, func(s *sample) float64 { return number(s.Arrival) })
			return fmt.Sprintf("%.2f", median)
		}
		early, _, _, _ := r.median(g.Race, g.Contender, g.Phase, func(s *sample) float64 { return float64(s.Arrival.Early) })
		known := []string{"-", "-"}
		if g.Arrival.KnownP99 > 0 {
			known = []string{take(func(a *arrival) float64 { return a.KnownP50 }), take(func(a *arrival) float64 { return a.KnownP99 })}
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | **%s** | %s | **%s** | %s of %d |\n", g.Case, g.Race, g.Phase, g.Contender,
			take(func(a *arrival) float64 { return a.P50 }), take(func(a *arrival) float64 { return a.P99 }), known[0], known[1],
			number(early), g.Objects)
	}
}

// writeCosts shows CPU time and memory by process.
func (r *results) writeCosts(out *strings.Builder) {
	if len(r.Samples) == 0 {
		return
	}
	processes := []string{controllerManager, karmadaManager, karmadaScheduler, karmadaServer, "karmada-webhook", "etcd"}
	fmt.Fprint(out, "\n## Processor and memory\n\nCPU seconds / peak memory in MiB until all writes have stopped; medians. The API server's figures\ninclude two requests a second for its metrics.\n\n")
	fmt.Fprintf(out, "| case | load | phase | by | %s |\n|---|---|---|---|%s\n", strings.Join(processes, " | "), strings.Repeat("---|", len(processes)))
	for _, g := range r.groups() {
		cells := make([]string, len(processes))
		for i, name := range processes {
			cpu, _, _, _ := r.median(g.Race, g.Contender, g.Phase, func(s *sample) float64 { return s.CPU[name] })
			peak, _, _, _ := r.median(g.Race, g.Contender, g.Phase, func(s *sample) float64 { return s.Peak[name] })
			if peak > 0 {
				cells[i] = fmt.Sprintf("%.2f / %.0f", cpu, peak)
			}
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", g.Case, g.Race, g.Phase, g.Contender, strings.Join(cells, " | "))
	}
}

// writeTraffic shows the API server's counts of writes.
func (r *results) writeTraffic(out *strings.Builder) {
	if len(r.Samples) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Writes\n\nOne round, counted by the API server until all writes have stopped. Includes the user's writes and\n"+
		"Karmada's, which reports on each Work with PUT works/status.\n\n")
	fmt.Fprint(out, "| case | load | phase | by | writes | per Work | KiB | by resource |\n|---|---|---|---|---|---|---|---|\n")
	for _, g := range r.groups() {
		all := func(string) bool { return true }
		total, sent := g.Writes.sum(all), g.Bytes.sum(all)
		parts := []string{}
		for _, key := range slices.Sorted(maps.Keys(g.Writes)) {
			parts = append(parts, fmt.Sprintf("%s %.0f", key, g.Writes[key]))
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %.0f | %.1f | %.0f | %s |\n",
			g.Case, g.Race, g.Phase, g.Contender, total, total/float64(g.Objects*g.Clusters), sent/1024, strings.Join(parts, ", "))
	}
}

func number(value float64) string {
	switch {
	case value == float64(int64(value)):
		return fmt.Sprintf("%.0f", value)
	case value >= 100:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.3f", value)
	}
}
