/**
 * Metrics of an open buffer for <a href="https://micrometer.io">Micrometer</a>, which exports them
 * to Prometheus, OpenTelemetry and others. {@code docs/observability/README.md} lists all meters.
 */
@NullMarked
package org.ep4j.micrometer;

import org.jspecify.annotations.NullMarked;
