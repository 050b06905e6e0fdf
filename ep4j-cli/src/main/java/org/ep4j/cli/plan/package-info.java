/** {@code ep4j plan}: profiles of machines, and predictions as tables, JSON and pages. */
@NullMarked
package org.ep4j.cli.plan;

import org.jspecify.annotations.NullMarked;
