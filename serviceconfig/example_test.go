package serviceconfig_test

import (
	"fmt"
	"log"

	"github.com/retrybudget/retrybudget/serviceconfig"
)

// The retry settings of a service config, as a Config for retrybudget.WithConfig.
func ExampleParse() {
	cfg, err := serviceconfig.Parse([]byte(`{
	  "methodConfig": [{
	    "name": [{"service": "pkg.Service"}],
	    "timeout": "2s",
	    "retryPolicy": {
	      "maxAttempts": 4,
	      "initialBackoff": "0.1s",
	      "maxBackoff": "2s",
	      "backoffMultiplier": 2,
	      "retryableStatusCodes": ["UNAVAILABLE"]
	    }
	  }]
	}`))
	if err != nil {
		log.Fatal(err)
	}
	m := cfg.GetMethods()[0]
	fmt.Println(m.GetNames(), m.GetPolicy().GetMaxAttempts(), m.GetPolicy().GetTimeout().AsDuration())
	// Output:
	// [/pkg.Service/] 4 2s
}

// What gRPC would ignore is an error that says where it is.
func ExampleParse_errors() {
	_, err := serviceconfig.Parse([]byte(`{
	  "methodConfig": [{
	    "name": [{}],
	    "retryPolicies": {},
	    "timeout": "100ms"
	  }]
	}`))
	fmt.Println(err)
	// Output:
	// retrybudget: service config, line 4: methodConfig[0].retryPolicies is not read here: it would have no effect
	// retrybudget: service config, line 5: methodConfig[0].timeout "100ms" is not a duration in seconds, such as "0.1s"
}
