package sandbox

import (
	"fmt"
	"os"

	"github.com/cofferhq/coffer/internal/secret"
	"github.com/cofferhq/coffer/internal/ui"
)

// secretValue gives the value of a secret that is there. A variable for tests.
var secretValue = secret.Lookup

// FillTemplate expands a template of a config file. ${NAME} is the user's variable or, if it is not
// set, the secret; ${secret:NAME} is the secret.
func FillTemplate(text string) (string, error) {
	return secret.Expand(text, func(r secret.Ref) (string, bool, error) {
		if !r.Secret {
			return PassedVariable(r.Name)
		}
		return secretNamed(r.Name)
	})
}

// RefusedVariable refuses the variable that opens the vault, whatever its value.
func RefusedVariable(name string) error {
	if name != secret.Variable {
		return nil
	}
	return ui.Hint(variable("%s opens your vault, and goes into no sandbox", name), "pass the secrets on that are needed there: -e NAME")
}

// PassedVariable is the value of a variable that the user passes on by its name: his own, or the secret.
func PassedVariable(name string) (value string, ok bool, err error) {
	if RefusedVariable(name) != nil {
		return "", false, fmt.Errorf("needs %s, which opens your vault and goes into no sandbox", name)
	}
	if value, ok = os.LookupEnv(name); ok || PassesVariable(name) {
		return value, ok, nil
	}
	return secretNamed(name)
}

// secretNamed opens the vault only if it has the secret.
func secretNamed(name string) (value string, ok bool, err error) {
	dir, err := secret.Dir()
	if err != nil {
		return "", false, nil // no home, no vault
	}
	label, err := secret.ReadLabel(dir)
	if err != nil || !label.Has(name) {
		return "", false, err
	}
	if value, err = secretValue(name); err != nil {
		return "", false, ui.Hint(fmt.Errorf("needs the secret %s: %w", name, err), "%s", ui.HintOf(err))
	}
	return value, true, nil
}
