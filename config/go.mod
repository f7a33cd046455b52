module github.com/retrybudget/retrybudget/config

go 1.26.0

replace github.com/retrybudget/retrybudget => ../

require (
	github.com/retrybudget/retrybudget v0.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v4 v4.0.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)
