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

import "errors"

var (
	errOutdated = errors.New("the object has been modified; please apply your changes to the latest version and try again")
	errBroken   = errors.New("something went wrong")
	// errNoPermission is why the controller may not read a kind.
	errNoPermission = errors.New("nobody has granted it")
	// errDenied is what a webhook of the users says.
	errDenied = errors.New("the policy of the company denies it")
	// errDeniedThere is what the admission of a member says. It is not fit for a terminal.
	errDeniedThere = errors.New("admission webhook \"guard.example.org\" denied the request: \x1b[31mnot\x1b[0m\there\n\x07")
	// errNoWebhook is what writers of Works get while Karmada's webhook does not answer.
	errNoWebhook = errors.New(`failed calling webhook "work.karmada.io": connection refused`)
)
