/** What the links between GPUs can carry: the ceiling that operations are compared with. */
@NullMarked
package org.ep4j.cuda.probe;

import org.jspecify.annotations.NullMarked;
