package config

import _ "embed"

// JSONSchema describes config files to editors. It is made from the types in schema.go.
//
//go:embed schema.json
var JSONSchema []byte
