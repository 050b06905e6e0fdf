/** Runs recorded routing from files, and compares the results with the recording. */
@NullMarked
package org.ep4j.cli.vectors;

import org.jspecify.annotations.NullMarked;
