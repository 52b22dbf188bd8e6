#!/usr/bin/env bash
# Copyright The Karmada Direct Authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
# Checks the controller-manager and its dependencies for known vulnerabilities,
# with the govulncheck that hack/tools/govulncheck pins. Accepted vulnerabilities
# are listed, with reasons, in hack/tools/govulncheck/accepted.txt.
#
#   VULNDB=file:///path   use a copy of the database instead of https://vuln.go.dev:
#                         its index and ID folders, or the bare OSV files
#   VULNCHECK=required    fail if the database cannot be reached; the default in
#                         GitHub Actions
#   VULNCHECK=optional    report that and exit with status 75, which is neither
#                         success nor a finding; the default elsewhere
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

db=${VULNDB:-https://vuln.go.dev}
accepted=hack/tools/govulncheck/accepted.txt
mode=${VULNCHECK:-$([[ ${GITHUB_ACTIONS:-} == true ]] && echo required || echo optional)}
if [[ ${mode} != required && ${mode} != optional ]]; then
  echo "VULNCHECK is ${mode}, want required or optional" >&2
  exit 2
fi

scanner=$(go -C hack/tools/govulncheck tool -n govulncheck)

# It prints when the database was updated, if it can reach the database.
if ! "${scanner}" -db "${db}" -version | grep -q '^DB updated: '; then
  if [[ ${mode} == required ]]; then
    echo "the vulnerability database ${db} cannot be reached, and VULNCHECK is required" >&2
    exit 1
  fi
  echo "SKIPPED: the vulnerability database ${db} cannot be reached; nothing was checked" >&2
  exit 75
fi

# It exits with 0 or 3 if the check ran, and with 3 if it found something.
status=0
report=$("${scanner}" -db "${db}" ./apis/... ./controllers/... ./cmd/...) || status=$?
if (( status != 0 && status != 3 )); then
  printf '%s\n' "${report}" >&2
  exit "${status}"
fi
found=$(sed -n 's/^Vulnerability #[0-9]*: //p' <<<"${report}" | sort -u)
known=$(sed -n 's/^\(GO-[0-9-]*\) .*/\1/p' "${accepted}" | sort -u)
new=$(comm -23 <(printf '%s\n' "${found}") <(printf '%s\n' "${known}") | sed '/^$/d')
gone=$(comm -13 <(printf '%s\n' "${found}") <(printf '%s\n' "${known}") | sed '/^$/d')
if (( status == 3 )) && [[ -z ${found} ]]; then
  printf 'govulncheck reported a finding that this script cannot parse:\n%s\n' "${report}" >&2
  exit 1
fi
if [[ -n ${gone} ]]; then
  printf '%s lists vulnerabilities that are no longer found; remove them:\n%s\n' "${accepted}" "${gone}" >&2
fi
if [[ -n ${new} ]]; then
  # One line per trace would be hundreds of lines.
  sed '/^      #/d; /Example traces found:$/d' <<<"${report}" >&2
  printf 'vulnerabilities that are not in %s:\n%s\n' "${accepted}" "${new}" >&2
fi
[[ -z ${new}${gone} ]] || exit 1
echo "no known vulnerability, except those in ${accepted}: ${known//$'\n'/ }"
