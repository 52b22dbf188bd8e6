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
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

const (
	// switchPackage is the package that says which mutant runs, and switchName its
	// name in the changed files, where nothing else has that name.
	switchPackage = module + "/hack/simulate/mutants/mutant"
	switchName    = "mutant__"
)

// numbered is an edit of the mutant with a number.
type numbered struct {
	Edit
	number int
	mutant string
}

var (
	errNoFunction = errors.New("there is no such function")
	errFragment   = errors.New("the old fragment must occur exactly once")
)

// rewrite returns a Go file with one more function for each edit, and with a switch at
// the beginning of each function that has edits.
func rewrite(path string, source []byte, edits []numbered) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	functions := map[string]*ast.FuncDecl{}
	for _, declared := range file.Decls {
		if function, ok := declared.(*ast.FuncDecl); ok && function.Body != nil {
			functions[nameOf(function)] = function
		}
	}
	byFunction := map[string][]numbered{}
	for _, edit := range edits {
		if functions[edit.Func] == nil {
			return nil, fmt.Errorf("mutant %q: %s in %s: %w", edit.mutant, edit.Func, path, errNoFunction)
		}
		byFunction[edit.Func] = append(byFunction[edit.Func], edit)
	}
	offset := func(at token.Pos) int { return files.Position(at).Offset }
	rest, out, copies := offset(file.Name.End()), &bytes.Buffer{}, &bytes.Buffer{}
	fmt.Fprintf(out, "%s\n\nimport %s %q\n", source[:rest], switchName, switchPackage)
	for _, function := range inOrder(functions) {
		if len(byFunction[nameOf(function)]) == 0 {
			continue
		}
		body := string(source[offset(function.Body.Lbrace)+1 : offset(function.Body.Rbrace)])
		out.Write(source[rest:offset(function.Pos())])
		rest = offset(function.End())
		if err := split(out, copies, function, body, byFunction[nameOf(function)]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	out.Write(source[rest:])
	out.Write(copies.Bytes())
	formatted, err := format.Source(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s does not parse with its mutants: %w", path, err)
	}
	return formatted, nil
}

func inOrder(functions map[string]*ast.FuncDecl) []*ast.FuncDecl {
	ordered := []*ast.FuncDecl{}
	for _, function := range functions {
		ordered = append(ordered, function)
	}
	slices.SortFunc(ordered, func(a, b *ast.FuncDecl) int { return int(a.Pos() - b.Pos()) })
	return ordered
}

// nameOf is the name of a function in the table: "Ledger.Amend" for a method.
func nameOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	kind := function.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if name, ok := kind.(*ast.Ident); ok {
		return name.Name + "." + function.Name.Name
	}
	return function.Name.Name
}

// split writes a function with a switch, and separately a copy for each mutant that its
// edits belong to.
func split(out, copies *bytes.Buffer, function *ast.FuncDecl, body string, edits []numbered) error {
	name := function.Name.Name
	receiver, arguments := nameParameters(function)
	function.Doc, function.Body = nil, nil
	switches, mutated := &strings.Builder{}, body
	for i, edit := range edits {
		var err error
		if mutated, err = edit.apply(mutated); err != nil {
			return err
		}
		if i+1 < len(edits) && edits[i+1].number == edit.number {
			continue // the mutant changes this function in another place, too
		}
		function.Name.Name = fmt.Sprintf("%s__%d", name, edit.number)
		call := receiver + function.Name.Name + typeArguments(function) + "(" + strings.Join(arguments, ", ") + ")"
		if function.Type.Results == nil {
			call += "\nreturn"
		} else {
			call = "return " + call
		}
		fmt.Fprintf(switches, "\nif %s.Is(%d) {\n%s\n}\n", switchName, edit.number, call)
		if err := declare(copies, function, mutated); err != nil {
			return fmt.Errorf("mutant %q: %w", edit.mutant, err)
		}
		mutated = body
	}
	function.Name.Name = name
	return declare(out, function, switches.String()+body)
}

// apply makes an edit in the body of its function.
func (e *numbered) apply(body string) (string, error) {
	if e.Old == "" {
		return e.New, nil
	}
	if found := strings.Count(body, e.Old); found != 1 {
		return "", fmt.Errorf("mutant %q: %q occurs %d times in %s: %w", e.mutant, e.Old, found, e.Func, errFragment)
	}
	return strings.Replace(body, e.Old, e.New, 1), nil
}

// nameParameters gives a name to each parameter that has none. It returns what a call
// from within the function puts in front of another function, and what it passes on.
func nameParameters(function *ast.FuncDecl) (receiver string, arguments []string) {
	if function.Recv != nil {
		nameField(function.Recv.List[0], "receiver__")
		receiver = function.Recv.List[0].Names[0].Name + "."
	}
	for i, field := range function.Type.Params.List {
		nameField(field, fmt.Sprintf("parameter%d__", i))
		for _, name := range field.Names {
			arguments = append(arguments, name.Name)
		}
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			arguments[len(arguments)-1] += "..."
		}
	}
	return receiver, arguments
}

func nameField(field *ast.Field, name string) {
	if len(field.Names) == 0 {
		field.Names = []*ast.Ident{ast.NewIdent(name)}
	}
	for i := range field.Names {
		if field.Names[i].Name == "_" {
			field.Names[i] = ast.NewIdent(fmt.Sprint(name, i))
		}
	}
}

func typeArguments(function *ast.FuncDecl) string {
	if function.Type.TypeParams == nil {
		return ""
	}
	names := []string{}
	for _, field := range function.Type.TypeParams.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// declare writes a function with a body.
func declare(out *bytes.Buffer, function *ast.FuncDecl, body string) error {
	head := &bytes.Buffer{}
	if err := format.Node(head, token.NewFileSet(), function); err != nil {
		return fmt.Errorf("printing %s: %w", function.Name.Name, err)
	}
	declared := head.String() + " {" + body + "}\n"
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package parsed\n"+declared, parser.SkipObjectResolution); err != nil {
		return fmt.Errorf("%s does not parse: %w", function.Name.Name, err)
	}
	out.WriteString("\n" + declared)
	return nil
}
