/** Inspects the machine. */
@NullMarked
package org.ep4j.cli.doctor;

import org.jspecify.annotations.NullMarked;
