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

// Package simulate runs the whole controller, its real code, against a simulated Karmada
// API server, a simulated Karmada and simulated members, on a virtual clock. A seed decides
// every choice, and the same seed replays the same history.
//
//	world.go         the parts, and how they are put together
//	schedule.go      what happens next
//	choices.go       who decides that
//	controller.go    the controller under test: one process, or a pair that elects a leader
//	disturb.go       what breaks
//	users.go         what people do: resources.go, propagations.go, works.go, fleet.go,
//	                 namespaces.go, unreadable.go, kinds.go, ailments.go, moves.go,
//	                 refusals.go, strangers.go
//	conspiracies.go  what they do at the worst moment; moments.go: when that is
//	themes.go        what belongs together
//	truth.go         what really happened
//	desire.go        what is desired
//	holdings.go      what must hold for each write to a Work
//	statuses.go      what must hold for each status; rows.go: compared with the last one
//	conduct.go       how often the controller may write what, and when
//	quiet.go         until nothing happens anymore
//	right.go         what must hold then; exact.go, words.go
//	portrait.go      what the world looks like then, and how it must not differ from
//	fresh.go         a world in which the same was applied from the beginning
//	run.go           a run; shrink.go: a shorter one that fails in the same way
//
// Everything runs in a bubble of testing/synctest, in which time is virtual and passes
// only when all goroutines wait. Requests of the controller, and events of its watches,
// wait in package apiserver until the schedule chooses them. Karmada, in package karmada,
// makes one write at a time, when it is chosen.
package simulate
