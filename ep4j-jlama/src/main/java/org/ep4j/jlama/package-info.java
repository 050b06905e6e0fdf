/**
 * Mixtral of <a href="https://github.com/tjake/Jlama">Jlama</a> with its experts spread over the
 * ranks of a group: {@link org.ep4j.jlama.ExpertParallelMixtral}.
 */
@NullMarked
package org.ep4j.jlama;

import org.jspecify.annotations.NullMarked;
