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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const source = `package p

import "fmt"

type shop struct{ open bool }

// Sell sells.
func (s *shop) Sell(what string, _ int, how ...string) (string, error) {
	if s.open {
		return what, nil
	}
	return fmt.Sprint(how), nil
}

func (shop) close(int) {
	fmt.Println("closed")
}

func first[T, U any](one T, other U) T { return one }
`

const rewritten = `package p

import mutant__ "github.com/karmada-direct/karmada-direct/hack/simulate/mutants/mutant"

import "fmt"

type shop struct{ open bool }

// Sell sells.

func (s *shop) Sell(what string, parameter1__0 int, how ...string) (string, error) {
	if mutant__.Is(1) {
		return s.Sell__1(what, parameter1__0, how...)
	}
	if mutant__.Is(3) {
		return s.Sell__3(what, parameter1__0, how...)
	}

	if s.open {
		return what, nil
	}
	return fmt.Sprint(how), nil
}

func (receiver__ shop) close(parameter0__ int) {
	if mutant__.Is(2) {
		receiver__.close__2(parameter0__)
		return
	}

	fmt.Println("closed")
}

func first[T, U any](one T, other U) T {
	if mutant__.Is(4) {
		return first__4[T, U](one, other)
	}
	return one
}

func (s *shop) Sell__1(what string, parameter1__0 int, how ...string) (string, error) {
	if !s.open {
		return what, nil
	}
	return "", nil
}

func (s *shop) Sell__3(what string, parameter1__0 int, how ...string) (string, error) {
	return what, nil
}

func (receiver__ shop) close__2(parameter0__ int) {

}

func first__4[T, U any](one T, other U) T { panic(other) }
`

// TestRewrite: functions get a switch and a copy per mutant, whatever they look like.
func TestRewrite(t *testing.T) {
	edits := []numbered{
		{number: 1, Edit: Edit{Func: "shop.Sell", Old: "if s.open", New: "if !s.open"}},
		{number: 1, Edit: Edit{Func: "shop.Sell", Old: "fmt.Sprint(how)", New: `""`}},
		{number: 2, Edit: Edit{Func: "shop.close", Old: `fmt.Println("closed")`}},
		{number: 3, Edit: Edit{Func: "shop.Sell", New: "return what, nil"}},
		{number: 4, Edit: Edit{Func: "first", Old: "return one", New: "panic(other)"}},
	}
	got, err := rewrite("p.go", []byte(source), edits)
	if err != nil {
		t.Fatal(err)
	}
	// Where lines begin does not matter.
	if !slices.Equal(strings.Fields(string(got)), strings.Fields(rewritten)) {
		t.Errorf("got:\n%s\nwant:\n%s", got, rewritten)
	}
}

// TestRewriteSaysWhatIsWrong: a table that no longer fits the code is noticed.
func TestRewriteSaysWhatIsWrong(t *testing.T) {
	for want, edit := range map[string]Edit{
		`mutant "m": shop.Buy in p.go: there is no such function`:                                      {Func: "shop.Buy"},
		`mutant "m": "s.closed" occurs 0 times in shop.Sell: the old fragment must occur exactly once`: {Func: "shop.Sell", Old: "s.closed"},
		`mutant "m": "return" occurs 2 times in shop.Sell: the old fragment must occur exactly once`:   {Func: "shop.Sell", Old: "return"},
		`mutant "m": Sell__7 does not parse: `:                                                         {Func: "shop.Sell", Old: "return what, nil", New: "return ("},
	} {
		_, err := rewrite("p.go", []byte(source), []numbered{{number: 7, mutant: "m", Edit: edit}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", edit, err, want)
		}
	}
}

// TestNamesAreUnique: the table in the docs distinguishes mutants by their names.
func TestNamesAreUnique(t *testing.T) {
	if _, err := editsByFile([]Mutant{{Name: "m"}, {Name: "m"}}); err == nil {
		t.Error("two mutants may have the same name")
	}
}

// TestTableApplies: every mutant in the table still applies to the code, and compiles.
func TestTableApplies(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := writeOverlay(root, t.TempDir(), table())
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./"+simulation)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	if _, err := os.Stat(filepath.Join(root, original)); err == nil {
		t.Errorf("%s must exist only in the overlay", original)
	}
}
