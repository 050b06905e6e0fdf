/** The ep4j command line. */
@NullMarked
package org.ep4j.cli;

import org.jspecify.annotations.NullMarked;
