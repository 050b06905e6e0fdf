/** Measures the operations. */
@NullMarked
package org.ep4j.cli.bench;

import org.jspecify.annotations.NullMarked;
