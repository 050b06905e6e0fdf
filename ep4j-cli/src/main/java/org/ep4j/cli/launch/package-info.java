/** Processes of a local launch: start, relay their output, end them. */
@NullMarked
package org.ep4j.cli.launch;

import org.jspecify.annotations.NullMarked;
