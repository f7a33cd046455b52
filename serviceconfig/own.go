package serviceconfig

import (
	"regexp"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// isOwn is said of a file that was given to the wrong package.
const isOwn = "this is a retrybudget configuration: use config.Load or config.Parse"

// serviceKeys are the keys that a service config may have.
var serviceKeys = []string{"methodConfig", "retryThrottling", "loadBalancingPolicy", "loadBalancingConfig", "healthCheckConfig"}

// ownKey returns the first member that a Config has in v, if nothing in v is a service
// config's.
func ownKey(v *value) *value {
	var first *value
	for _, f := range v.fields {
		if slices.Contains(serviceKeys, f.name) {
			return nil
		}
		if first == nil && isConfigField(f.name) {
			first = f.value
		}
	}
	return first
}

// yamlKey finds the keys of a YAML text that are not indented.
var yamlKey = regexp.MustCompile(`(?m)^([A-Za-z_]+):`)

// isOwnYAML reports whether a text that is no JSON has a key of a Config.
func isOwnYAML(data []byte) bool {
	for _, m := range yamlKey.FindAllSubmatch(data, -1) {
		if isConfigField(string(m[1])) {
			return true
		}
	}
	return false
}

func isConfigField(name string) bool {
	fields := (*retrybudgetv1.Config)(nil).ProtoReflect().Descriptor().Fields()
	return fields.ByName(protoreflect.Name(name)) != nil || fields.ByJSONName(name) != nil
}
