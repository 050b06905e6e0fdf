/** Starts the processes of a local launch, relays their output, and ends them. */
@NullMarked
package org.ep4j.cli.launch;

import org.jspecify.annotations.NullMarked;
