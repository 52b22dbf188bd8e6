// Everything of a release, except publishing it.
module github.com/karmada-direct/karmada-direct/hack/release

go 1.26

require github.com/CycloneDX/cyclonedx-go v0.12.0
