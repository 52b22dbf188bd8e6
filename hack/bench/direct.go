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

import "context"

// direct is DirectPropagation: its user writes one object per resource.
type direct struct {
	*ground
	load *load
}

func newDirect(g *ground, l *load) contender { return &direct{ground: g, load: l} }

func (*direct) before(context.Context, phase) error { return nil }

func (d *direct) do(ctx context.Context, p phase, sent func(int)) error {
	switch p {
	case phaseCreate:
		return d.load.createPropagations(ctx, d.client, sent)
	case phaseUpdate:
		return d.load.setRevision(ctx, d.client, 2, sent)
	default:
		return d.load.deletePropagations(ctx, d.client, sent)
	}
}

func (*direct) after(context.Context) error { return nil }
