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

import "math/rand/v2"

// choices makes every choice of a simulation: from a seed, or from those of an earlier
// run. A choice is a number, and the lower it is, the less it disturbs: 0 is what
// happens if nothing is wrong. The choices of one step form a block, so that a step can
// be left out without changing what the others choose.
type choices struct {
	random *rand.Rand
	// left is how many steps are still to be made from the seed.
	left int
	// script replays choices.
	script [][]int
	// alone: there is never a pair of replicas.
	alone bool
	// theme is the only theme of the world; empty if it may have any or none.
	theme string
	// made are the choices so far, by step.
	made [][]int
}

// seeded chooses at random, for a number of steps.
func seeded(seed uint64, steps int) *choices {
	return &choices{random: rand.New(rand.NewPCG(seed, 0)), left: steps} //nolint:gosec // a seed makes the choices repeatable
}

// scripted chooses again what was chosen before.
func scripted(script [][]int) *choices { return &choices{script: script} }

// begin begins what is chosen before the first step.
func (c *choices) begin() { c.made = [][]int{nil} }

// step begins a step. It returns false after the last one.
func (c *choices) step() bool {
	if c.random == nil && len(c.made) >= len(c.script) || c.random != nil && c.left == 0 {
		return false
	}
	c.left--
	c.made = append(c.made, nil)
	return true
}

// below chooses a number below n.
func (c *choices) below(n int) int {
	chosen, last := 0, len(c.made)-1
	switch {
	case n <= 1:
	case c.random != nil:
		chosen = c.random.IntN(n)
	case last < len(c.script) && len(c.made[last]) < len(c.script[last]):
		chosen = c.script[last][len(c.made[last])] % n
	}
	c.made[last] = append(c.made[last], chosen)
	return chosen
}

// oneIn chooses true in one of n cases.
func (c *choices) oneIn(n int) bool { return c.below(n) == n-1 }

// oneOf chooses one of several.
func oneOf[T any](c *choices, of []T) T { return of[c.below(len(of))] }
