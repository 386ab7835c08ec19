package mask

import (
	"bytes"
	"strings"
	"sync"
)

// defaults are the built-in rules, as [Starter] writes them. A line that begins with ? is
// in force only for files that show evidence of a secret.
const defaults = `
# Environment files, but not the templates for them
.env
.env.*
!.env.example
!.env.*.example
!.env.sample
!.env.template
!.env.dist
!.env.defaults
!.env.schema
.envrc.local
.dev.vars
local.settings.json

# Private keys and keystores
?*.pem
*.key
*.p8
*.p12
*.pfx
*.ppk
*.jks
*.keystore
*.kdbx
*.keytab
id_rsa
id_dsa
id_ecdsa
id_ecdsa_sk
id_ed25519
id_ed25519_sk
.ssh/
.gnupg/

# Credentials of clouds
.aws/
.azure/
.gcp/
.gcloud/
.config/gcloud/
.oci/
.aliyun/
.boto
.s3cfg
credentials.json
application_default_credentials.json
client_secret*.json
service-account*.json
service_account*.json
serviceaccount*.json
*firebase-adminsdk*.json

# Clusters, containers, infrastructure
.kube/
kubeconfig
*.kubeconfig
kubeconfig.yaml
kubeconfig.yml
.docker/config.json
.dockercfg
docker-compose.override.yml
docker-compose.override.yaml
compose.override.yml
compose.override.yaml
*.tfstate
*.tfstate.*
*.tfvars
.terraformrc
credentials.tfrc.json
.vault-token
.vault_pass
.vault-password

# Passwords and tokens of tools
.netrc
_netrc
.pypirc
?.npmrc
?.yarnrc.yml
?auth.json
.git-credentials
.htpasswd
.pgpass
.my.cnf
.gem/credentials
.cargo/credentials
.cargo/credentials.toml
.streamlit/secrets.toml
`

// evidence is what a file must have in it for a rule to be about it.
type evidence struct {
	what  string
	words []string
}

func evidenceFor(pattern string) (e evidence) {
	switch pattern {
	case "*.pem":
		e = evidence{"a private key", []string{"PRIVATE KEY"}}
	case ".npmrc":
		e = evidence{"a token", []string{"_auth", "_password"}}
	case ".yarnrc.yml":
		e = evidence{"a token", []string{"npmAuthToken", "npmAuthIdent"}}
	case "auth.json":
		e = evidence{"a token", []string{"token", "password", "http-basic", "oauth", "api_key", "bearer"}}
	}
	return e
}

// builtin are the built-in rules. Case does not count: no file system, and no person,
// makes a difference between .env and .ENV that is worth a secret.
var builtin = sync.OnceValue(func() []Rule {
	var rules []Rule
	for line := range strings.Lines(defaults) {
		text, looks := strings.CutPrefix(strings.TrimSpace(line), "?")
		r, says, err := ParseLine(text, "", Builtin)
		if err != nil {
			panic(err) // a test sees to it that there is none
		}
		if !says {
			continue
		}
		if r.glob.fold = true; looks {
			e := evidenceFor(text)
			r.look = &e
		}
		rules = append(rules, r)
	}
	return rules
})

// Looks says that the rule hides a file only if [Rule.Confirms] its content.
func (r *Rule) Looks() bool { return r.look != nil }

// maxLook is how much of a file is looked at.
const maxLook = 256 << 10

// Confirms says whether a file's content is what the rule is about.
func (r *Rule) Confirms(content []byte) bool {
	if r.look == nil {
		return true
	}
	for _, w := range r.look.words {
		if bytes.Contains(content, []byte(w)) {
			return true
		}
	}
	return false
}

// String is the rule for people.
func (r *Rule) String() string {
	if r.look != nil {
		return r.Text + ", with " + r.look.what + " in it"
	}
	return r.Text
}

// Starter is a file to start from: the built-in rules, so that people see them and can add
// their own.
func Starter() string {
	var b strings.Builder
	b.WriteString(starterHead)
	for line := range strings.Lines(defaults) {
		if text, looks := strings.CutPrefix(strings.TrimSpace(line), "?"); looks {
			e := evidenceFor(text)
			line = "# " + text + " is hidden too, if there is " + e.what + " in it\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

const starterHead = `# What of this repository sandboxes cannot read, replace, rename or remove, in the
# language of .gitignore. 'coffer masks' lists what that is.
#
# The lines below are built in: they hold without this file, and removing them here
# changes nothing. To have one of these files shown, take it back with a line such as
# "!config/dev.key"; everybody who uses this repository is asked to agree.

# Your own:
# /config/production.yml
# *.secret
`
