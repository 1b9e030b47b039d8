#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# vLLM's router in front of three boxes with halod. docs/scale-out.md says what it does well;
# tests/daemon/test_routers.py runs this file. To change: the addresses.
#
# A conversation stays on its box by the header X-Session-ID; a new one goes where the router
# has least under way. A box that fails one check of /health is left out until it is well, and
# so is one whose last requests failed (cb).
exec vllm-router --host 127.0.0.1 --port 8000 \
	--worker-urls http://127.0.0.1:8081 http://127.0.0.1:8082 http://127.0.0.1:8083 \
	--policy sticky_least_loaded \
	--health-check-endpoint /health --health-check-interval-secs 1 \
	--health-check-timeout-secs 2 \
	--health-failure-threshold 1 --health-success-threshold 1 \
	--worker-startup-check-interval 1 \
	--cb-failure-threshold 2 --cb-success-threshold 1 --cb-timeout-duration-secs 2 \
	--request-timeout-secs 1800 \
	--prometheus-port 29000
