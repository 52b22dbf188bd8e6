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

package argocd

import (
	"context"
	"fmt"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// run runs a script on an object and returns its result.
func run(t *testing.T, script string, object map[string]any) any {
	t.Helper()
	result, err := tryRun(script, object)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// budget ends a script after a number of instructions, because the interpreter calls
// Done before each of them. Argo CD gives a script one second, which is enough for
// millions of instructions. A limit in seconds would depend on the load of the
// machine.
type budget struct {
	context.Context //nolint:containedctx // it is a context itself
	left            int
}

func (b *budget) Done() <-chan struct{} {
	if b.left--; b.left < 0 {
		return spent
	}
	return nil
}

func (b *budget) Err() error {
	if b.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// spent is a closed channel.
var spent = func() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}()

func tryRun(script string, object map[string]any) (any, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return nil, fmt.Errorf("opening library %s: %w", name, err)
		}
	}
	// Of the os library, only time and date are available, and only to scripts that
	// require it.
	state.PreloadModule(lua.OsLibName, func(state *lua.LState) int {
		whole := lua.NewState(lua.Options{SkipOpenLibs: true})
		lua.OpenOs(whole)
		all, _ := whole.GetGlobal(lua.OsLibName).(*lua.LTable)
		safe := state.NewTable()
		for _, name := range []string{"time", "date"} {
			function, _ := all.RawGetString(name).(*lua.LFunction)
			safe.RawSetString(name, state.NewFunction(function.GFunction))
		}
		state.Push(safe)
		return 1
	})
	state.SetContext(&budget{Context: context.Background(), left: 100_000})
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("the script returns %s, want a table", state.Get(-1).Type())
	}
	return fromLua(table), nil
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch typed := value.(type) {
	case bool:
		return lua.LBool(typed)
	case float64:
		return lua.LNumber(typed)
	case string:
		return lua.LString(typed)
	case []any:
		list := state.NewTable()
		for _, item := range typed {
			list.Append(toLua(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, item := range typed {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}

func fromLua(value lua.LValue) any {
	switch typed := value.(type) {
	case lua.LBool:
		return bool(typed)
	case lua.LNumber:
		return float64(typed)
	case lua.LString:
		return string(typed)
	case *lua.LTable:
		if typed.Len() > 0 {
			list := []any{}
			typed.ForEach(func(_, item lua.LValue) { list = append(list, fromLua(item)) })
			return list
		}
		table := map[string]any{}
		typed.ForEach(func(key, item lua.LValue) { table[key.String()] = fromLua(item) })
		return table
	default:
		return nil
	}
}
