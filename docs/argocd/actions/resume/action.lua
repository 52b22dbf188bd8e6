-- Resumes propagation, including changes that were held back.
obj.spec.suspension = nil
return obj
