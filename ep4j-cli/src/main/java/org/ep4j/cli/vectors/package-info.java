/** Real routing from files: run it, and compare it with what was recorded. */
@NullMarked
package org.ep4j.cli.vectors;

import org.jspecify.annotations.NullMarked;
